// SPDX-License-Identifier: Apache-2.0
// Helpers to build elements. Text from a profile only becomes text nodes.

type Properties = { [name: string]: unknown };

// Names with a dash set attributes, others set properties.
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

// A name that may wrap after each dot and slash.
export const breakable = (name: string): (Node | string)[] => name.split(/(?<=[./])/).flatMap((part, i) => (i === 0 ? [part] : [make("wbr"), part]));

// Builds SVG elements.
export function draw<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElementTagNameMap[Tag] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

export function button(text: string, onClick: () => void, properties: Properties = {}): HTMLButtonElement {
  const element = make("button", { type: "button", ...properties }, text);
  element.addEventListener("click", onClick);
  return element;
}

// A select of values with labels; set() marks the chosen one.
export interface Select<T extends string> { element: HTMLSelectElement; set(value: T): void }
export function select<T extends string>(label: string, values: readonly (readonly [T, string])[],
  onChoose: (value: T) => void): Select<T> {
  const element = make("select", { className: "field", "aria-label": label },
    ...values.map(([value, text]) => make("option", { value }, text)));
  element.addEventListener("change", () => onChoose(element.value as T));
  return { element, set: (value) => { element.value = value; } };
}

// A row of buttons, one of them pressed.
export interface Choice<T extends string> { element: HTMLElement; set(value: T): void }
export function choice<T extends string>(label: string, values: readonly (readonly [T, string])[],
  onChoose: (value: T) => void): Choice<T> {
  const buttons = values.map(([value, text]) => button(text, () => onChoose(value), { "data-value": value }));
  return {
    element: make("div", { className: "choice", role: "group", "aria-label": label }, ...buttons),
    set: (value) => buttons.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset["value"] === value))),
  };
}

// Saves a URL like a click on a download link.
export function save(name: string, url: string): void {
  const link = make("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  save(name, url);
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
