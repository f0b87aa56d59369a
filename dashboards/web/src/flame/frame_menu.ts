// SPDX-License-Identifier: Apache-2.0
// Actions on a function, for a frame of the graph or a row of a table.
import type { App } from "../app";
import { escapeRegExp } from "../lib/text";
import type { Choice } from "./menu";

// Adds a value to a repeated field of the filter.
export function addToFilter(app: App, field: "require" | "forbid" | "hide", pattern: string): void {
  const { filter } = app.store.get();
  const before = filter[field] ?? [];
  const values = typeof before === "string" ? [before] : before;
  if (!values.includes(pattern)) app.store.update({ filter: { ...filter, [field]: [...values, pattern] } }, true);
}

// Opens a tab and sets its state in the address.
export function openTab(app: App, tab: string, extra: Record<string, string>): void {
  app.store.update({ tab, extra: { ...app.store.get().extra, ...extra } }, true);
}

export function frameMenu(app: App, name: string): Choice[] {
  const exactly = `^${escapeRegExp(name)}$`;
  return [
    { label: "Search for this function", run: () => app.store.setExtra("search", exactly, true) },
    { label: "Callers and callees", run: () => openTab(app, "callers", { "callers.of": exactly }) },
    { label: "Only callstacks with it", run: () => addToFilter(app, "require", exactly) },
    { label: "Only callstacks without it", run: () => addToFilter(app, "forbid", exactly) },
    { label: "Hide its frames", run: () => addToFilter(app, "hide", exactly) },
    { label: "Copy its name", run: () => void navigator.clipboard?.writeText(name).catch((error) => app.fail(error)) },
  ];
}
