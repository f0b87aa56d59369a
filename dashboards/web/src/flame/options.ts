// SPDX-License-Identifier: Apache-2.0
// Display options of the graph, stored in the address as x.flame.* and x.search.
import type { Store, View } from "../lib/state";
import type { ColourMode } from "./colours";
import { WIDTHS, type Width } from "./difference";

export interface FlameOptions {
  inverted: boolean;
  upwards: boolean;
  colour: ColourMode;
  width: Width;  // for a difference
  zoom: string;  // see paths.ts
}

export function optionsOf(view: View): FlameOptions {
  const { extra, compare } = view;
  const width = extra["flame.width"] as Width;
  const colour = extra["flame.colour"];
  return {
    inverted: extra["flame.order"] === "callers",
    upwards: extra["flame.root"] !== "top",
    colour: compare ? (colour === "module" ? "module" : "change") : colour === "lifetime" ? "lifetime" : "module",
    width: WIDTHS.includes(width) ? width : "both",
    zoom: extra["flame.zoom"] ?? "",
  };
}

// memprofd folds recursion unless the view asks for full stacks.
export const recursionOf = (view: View): "folded" | "full" => (view.extra["flame.recursion"] === "full" ? "full" : "folded");

// Sets several options; "" restores the default.
export function setOptions(store: Store, change: Record<string, string>, isStep = false): void {
  const extra = { ...store.get().extra };
  for (const [name, value] of Object.entries(change)) {
    if (value === "") delete extra[`flame.${name}`];
    else extra[`flame.${name}`] = value;
  }
  store.update({ extra }, isStep);
}
