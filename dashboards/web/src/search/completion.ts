// SPDX-License-Identifier: Apache-2.0
// Completion for an input: a list below it, an ARIA combobox.
//
// Up and down move, Enter or a click takes, Escape closes. Without a chosen entry the owner handles Enter.
import { make } from "../lib/dom";

export interface Suggestion {
  text: string;  // shown, and matched
  kind: string;  // "function", "file", "module"
  detail: string;  // size, shown at the right
}

export interface CompletionOptions {
  // Returns the best match first. Called often.
  suggest: (typed: string) => readonly Suggestion[];
  onPick: (picked: Suggestion) => void;
  onOpen?: () => void;  // the input got the focus; loads the suggestions
}

let lists = 0;

export class Completion {
  private readonly list = make("ul", { className: "completion", role: "listbox", hidden: true });
  private shown: readonly Suggestion[] = [];
  private chosen = -1;

  constructor(private readonly input: HTMLInputElement, private readonly options: CompletionOptions) {
    this.list.id = `completion-${++lists}`;
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", this.list.id);
    input.setAttribute("aria-expanded", "false");
    input.autocomplete = "off";
    input.after(this.list);
    input.addEventListener("input", () => this.refresh());
    input.addEventListener("focus", () => options.onOpen?.());
    input.addEventListener("blur", () => this.close());
    input.addEventListener("keydown", (event) => this.key(event));
    // mousedown comes before the input loses the focus.
    this.list.addEventListener("mousedown", (event) => this.press(event));
  }

  // Updates the list after the suggestions have changed.
  refresh(): void {
    if (document.activeElement !== this.input) return;
    this.shown = this.input.value.trim() === "" ? [] : this.options.suggest(this.input.value.trim());
    this.chosen = -1;
    this.render();
  }
  close(): void {
    this.shown = [];
    this.chosen = -1;
    this.render();
  }

  private render(): void {
    const { input, list, shown } = this;
    list.hidden = shown.length === 0;
    input.setAttribute("aria-expanded", String(shown.length > 0));
    list.replaceChildren(...shown.map((suggestion, i) => make("li",
      { role: "option", id: `${list.id}-${i}`, "aria-selected": String(i === this.chosen) },
      make("span", { className: "kind" }, suggestion.kind),
      make("span", { className: "what" }, suggestion.text),
      make("span", { className: "detail" }, suggestion.detail))));
    this.mark();
  }
  private mark(): void {
    [...this.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === this.chosen)));
    if (this.chosen < 0) this.input.removeAttribute("aria-activedescendant");
    else this.input.setAttribute("aria-activedescendant", `${this.list.id}-${this.chosen}`);
    this.list.children[this.chosen]?.scrollIntoView({ block: "nearest" });
  }

  private key(event: KeyboardEvent): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      if (this.shown.length === 0) this.refresh();
      const places = this.shown.length + 1;  // including "no entry"
      this.chosen = ((this.chosen + 1 + step + places) % places) - 1;
      this.mark();
      event.preventDefault();
    } else if (event.key === "Enter" && this.chosen >= 0) {
      this.take(this.chosen);
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (event.key === "Escape" && this.shown.length > 0) {
      this.close();
      event.stopImmediatePropagation();
      event.preventDefault();
    }
  }
  private press(event: MouseEvent): void {
    const item = (event.target as Element).closest("li");
    if (item === null) return;
    event.preventDefault();
    this.take([...this.list.children].indexOf(item));
  }
  private take(index: number): void {
    const picked = this.shown[index];
    this.close();
    if (picked !== undefined) this.options.onPick(picked);
  }
}
