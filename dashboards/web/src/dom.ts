// Elements in one line. Text from a profile only ever becomes text nodes.

type Properties = { [name: string]: unknown };

// Names with a dash are attributes, the others properties.
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, properties: Properties = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, String(value));
    else (element as unknown as Properties)[name] = value;
  }
  element.append(...children);
  return element;
}

export function button(text: string, onClick: () => void, properties: Properties = {}): HTMLButtonElement {
  const element = make("button", { type: "button", ...properties }, text);
  element.addEventListener("click", onClick);
  return element;
}
