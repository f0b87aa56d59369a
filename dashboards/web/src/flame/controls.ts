// SPDX-License-Identifier: Apache-2.0
// The line above the graph: measure, display options and search results.
import type { App } from "../app";
import { button, make } from "../lib/dom";
import * as format from "../lib/format";
import { isKnown, measures, unitOf, type Measure } from "../lib/names";
import type { View } from "../lib/state";
import type { Tree } from "./call_tree";
import { choice, type Choice } from "./choice";
import type { ColourMode } from "./colours";
import { changeOf } from "./colours";
import type { Width } from "./difference";
import { optionsOf, recursionOf, setOptions } from "./options";
import type { Profile } from "./profile";
import type { SearchResult } from "./search";

export class Controls {
  readonly element = make("div", { className: "flame-controls" });
  private readonly measure: Choice<Measure>;
  private readonly order: Choice<"callees" | "callers">;
  private readonly root: Choice<"flame" | "icicle">;
  private readonly recursion: Choice<"folded" | "full">;
  private readonly colour: Choice<ColourMode>;
  private readonly width: Choice<Width>;
  private readonly reset: HTMLButtonElement;
  private readonly matched = make("output", { className: "matched" });
  private readonly total = make("span", { className: "total" });

  constructor(private readonly app: App) {
    const { store } = app;
    this.measure = choice("Measure", measures().map(({ name, label }) => ({ value: name, label })),
      (measure) => store.update({ measure }, true));
    this.order = choice("Order of the frames", [
      { value: "callees", label: "Callees", title: "Above each function, what it calls" },
      { value: "callers", label: "Callers", title: "The callers above each function that allocates" }],
      (value) => setOptions(store, { order: value === "callers" ? value : "", zoom: "" }, true));
    this.root = choice("Orientation", [{ value: "flame", label: "Flame", title: "The root below" },
      { value: "icicle", label: "Icicle", title: "The root above" }],
      (value) => setOptions(store, { root: value === "icicle" ? "top" : "" }));
    this.recursion = choice("Recursion", [
      { value: "folded", label: "Folded", title: "A function that calls itself, or a cycle of functions, as one frame: List.init ×312" },
      { value: "full", label: "All frames", title: "Every frame of a recursion" }],
      (value) => setOptions(store, { recursion: value === "folded" ? "" : value, zoom: "" }, true));
    this.colour = choice("Colour", [
      { value: "module", label: "Module", title: "Colour by module" },
      { value: "lifetime", label: "Lifetime", title: "Colour by how long blocks live" },
      { value: "change", label: "Change", title: "Colour by what changed between the two ranges" }],
      (value) => setOptions(store, { colour: value }));
    this.width = choice("Width of the frames", [
      { value: "both", label: "Both", title: "Width: before and after together, so that removed code is visible" },
      { value: "before", label: "Before", title: "Width: the earlier range" },
      { value: "after", label: "After", title: "Width: the selected range" }],
      (value) => setOptions(store, { width: value === "both" ? "" : value }));
    this.reset = button("Reset zoom", () => setOptions(store, { zoom: "" }, true), { className: "button" });
    this.element.append(this.measure.element, this.order.element, this.root.element, this.recursion.element,
      this.colour.element, this.width.element, this.reset, make("span", { className: "space" }), this.total, this.matched);
  }

  fail(message: string): void {
    this.total.textContent = message;
    this.total.classList.add("failed");
  }

  // profile and tree are null until the profile is loaded.
  show(view: View, profile: Profile | null, tree: Tree | null, found: SearchResult): void {
    const options = optionsOf(view);
    const isDifference = view.compare !== undefined;
    const mode = this.app.target()?.mode;
    this.measure.show(view.measure, (measure) => isKnown(measure, mode, view.filter["heap"]));
    this.order.show(options.inverted ? "callers" : "callees");
    this.root.show(options.upwards ? "flame" : "icicle");
    this.recursion.show(recursionOf(view));
    this.colour.show(options.colour, (value) => value === "change" ? isDifference
      : value !== "lifetime" || (!isDifference && profile?.lifetime != null));
    this.width.element.hidden = !isDifference;
    this.width.show(options.width);
    this.reset.hidden = options.zoom === "";
    this.total.classList.remove("failed");
    this.total.textContent = profile === null || tree === null ? "Loading…" : totalOf(view, profile, tree);
    this.showFound(found, tree);
  }

  private showFound({ isValid, matches, bytes }: SearchResult, tree: Tree | null): void {
    if (!isValid) return this.matched.replaceChildren("not a regular expression");
    if (matches === null || tree === null) return this.matched.replaceChildren();
    this.matched.replaceChildren(make("b", {}, format.share(bytes, tree.total[0])),
      ` matched, ${format.bytes(bytes)}`);
  }
}

// The total as an estimate, or its change.
function totalOf(view: View, profile: Profile, tree: Tree): string {
  const total = profile.total(view.measure);
  if (tree.sides === null) {
    return `${format.estimate(total.bytes, total.error)} in ${format.count(total.samples)} samples`;
  }
  const unit = unitOf(view.measure);
  const { before, beforeVariance, after, afterVariance } = tree.sides;
  const { change, error } = changeOf(tree, 0);
  const of = (bytes: number, variance: number) => format.estimate(bytes, Math.sqrt(variance)) + unit;
  return `${of(before[0], beforeVariance[0])} → ${of(after[0], afterVariance[0])}: ` +
    `${format.change(change, error)}${unit}`;
}
