// SPDX-License-Identifier: Apache-2.0
// The filter that all panels share: its conditions, each with a button to remove it, and an editor to add more.
import type { App, Panel } from "../app";
import { addToFilter } from "../flame/frame_menu";
import { AGE_FIELDS } from "../lib/api";
import { button, make } from "../lib/dom";
import * as format from "../lib/format";
import type { View } from "../lib/state";
import { Completion } from "../search/completion";
import { isRegExp, suggestedPattern, Suggestions } from "../search/search";
import { conditionsOf, withField } from "./conditions";
import { parseDuration, parseSize } from "./quantities";
import "./sites.css";

type Field = HTMLInputElement | HTMLSelectElement;

const FRAMES = [["pattern", "Site matches"], ["require", "Callstack has"], ["forbid", "Callstack has no"],
  ["hide", "Hide frames"]] as const;
const SELECTS = [
  ["frames", "Sites by", [["", "application frames"], ["all", "all frames"]]],
  ["heap", "Heap", [["", "all"], ["minor", "minor"], ["major", "major"], ["external", "outside"], ["c", "C"]]],
  ["source", "Source", [["", "all"], ["normal", "normal"], ["marshal", "marshal"], ["custom", "custom"]]],
  ["fate", "Fate", [["", "all"], ["alive", "alive at the end"], ["dead", "died in the range"]]],
] as const;
const BOUNDS = [
  ["min_size_bytes", "Size from", "64 B", parseSize], ["max_size_bytes", "to", "1 KiB", parseSize],
  ["min_lifetime_seconds", "Lived from", "10 s", parseDuration], ["max_lifetime_seconds", "to", "5 min", parseDuration],
] as const;

class FilterBar implements Panel {
  private readonly chips = make("span", { style: "display: contents" });
  private readonly toggle: HTMLButtonElement;
  private readonly clear: HTMLButtonElement;
  private readonly editor = make("div", { className: "filter-editor card", hidden: true, id: "filter-editor" });
  private readonly fields = new Map<string, Field>();
  private readonly inRange = make("input", { type: "checkbox" });
  private readonly note = make("span", { className: "muted", hidden: true },
    "Charts over time and growth ignore lifetime conditions.");
  private shown = "";

  constructor(private readonly container: HTMLElement, private readonly app: App) {
    container.classList.add("filter");
    this.toggle = button("Filter…", () => this.open(this.editor.hidden), { className: "button",
      "aria-expanded": "false", "aria-controls": this.editor.id });
    this.clear = button("Clear", () => app.store.update({ filter: {} }, true), { className: "button" });
    this.editor.append(this.frameFields(), ...BOUNDS.map(([name, label, example, parse]) => this.boundField(name, label, example, parse)),
      ...SELECTS.map(([name, label, options]) => this.selectField(name, label, options)), this.rangeField());
    this.editor.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.open(false);
      this.toggle.focus();
    });
    container.append(this.toggle, this.chips, this.clear, this.note, this.editor);
  }

  update({ filter }: View): void {
    const shown = JSON.stringify(filter);
    if (shown === this.shown) return;
    this.shown = shown;
    const conditions = conditionsOf(filter);
    this.clear.hidden = conditions.length === 0;
    this.note.hidden = !AGE_FIELDS.some((name) => name in filter);
    this.chips.replaceChildren(...conditions.map(({ words, without }) => make("span", { className: "chip", title: words },
      make("span", {}, words), button("×", () => this.app.store.update({ filter: without }, true),
        { "aria-label": `Remove: ${words}` }))));
    for (const [name, field] of this.fields) {
      if (document.activeElement !== field) field.value = textOf(name, String(filter[name] ?? ""));
    }
    this.inRange.checked = filter["allocated_in_range"] === "true";
  }
  destroy(): void {
    this.container.replaceChildren();
  }

  private open(isOpen: boolean): void {
    this.editor.hidden = !isOpen;
    this.toggle.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.editor.querySelector<HTMLElement>("input")?.focus();
  }
  private set(name: string, value: string): void {
    this.app.store.update({ filter: withField(this.app.store.get().filter, name, value) }, true);
  }

  // Fields for a condition on frames: a regular expression with completion.
  private frameFields(): HTMLElement {
    const { app } = this;
    const kind = make("select", { className: "field", "aria-label": "What about frames" },
      ...FRAMES.map(([value, label]) => make("option", { value }, label)));
    const input = make("input", { className: "field", spellcheck: false, placeholder: "function or file (regular expression)",
      "aria-label": "Regular expression of a function or a file" });
    const add = () => {
      const text = input.value.trim();
      const isValid = isRegExp(text);
      input.setAttribute("aria-invalid", String(!isValid));
      if (text === "" || !isValid) return;
      if (kind.value === "pattern") this.set("pattern", text);
      else addToFilter(app, kind.value as "require" | "forbid" | "hide", text);
      input.value = "";
    };
    const suggestions = new Suggestions(app);
    const line = make("div", { className: "frames" }, kind, make("div", { className: "grow" }, input),
      button("Add", add, { className: "button" }));
    const completion = new Completion(input, {
      suggest: (typed) => suggestions.suggest(typed),
      onPick: (picked) => { input.value = suggestedPattern(picked); },
      onOpen: () => void suggestions.load().then(() => completion.refresh()),
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") add();
    });
    return line;
  }

  private boundField(name: string, label: string, example: string, parse: (text: string) => number | null): HTMLElement {
    const input = make("input", { className: "field short", placeholder: example, name });
    input.addEventListener("change", () => {
      const value = parse(input.value);
      const isValid = value !== null || input.value.trim() === "";
      input.setAttribute("aria-invalid", String(!isValid));
      // Sizes are rounded to whole bytes.
      if (isValid) this.set(name, value === null || value === 0 ? "" : String(parse === parseSize ? Math.round(value) : value));
    });
    this.fields.set(name, input);
    return make("label", {}, label, input);
  }

  private selectField(name: string, label: string, options: readonly (readonly [string, string])[]): HTMLElement {
    const select = make("select", { className: "field", name },
      ...options.map(([value, text]) => make("option", { value }, text)));
    select.addEventListener("change", () => this.set(name, select.value));
    this.fields.set(name, select);
    return make("label", {}, label, select);
  }

  private rangeField(): HTMLElement {
    this.inRange.addEventListener("change", () => this.set("allocated_in_range", this.inRange.checked ? "true" : ""));
    return make("label", { className: "check", title: "Count only blocks allocated in the range; live then means alive at its end" }, this.inRange, "allocated in the range");
  }
}

function textOf(name: string, value: string): string {
  if (value === "") return "";
  if (name.endsWith("_bytes")) return format.bytes(Number(value));
  return name.endsWith("_seconds") ? format.duration(Number(value)) : value;
}

export const mountFilter = (container: HTMLElement, app: App): Panel => new FilterBar(container, app);
