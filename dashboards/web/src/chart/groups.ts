// SPDX-License-Identifier: Apache-2.0
// Drill-down from a group to its parts, and back.
import type { Site } from "../lib/api";
import { belowOf, groupName, isCallstack, numberFields, numberFilter, patternOf, type GroupBy } from "../lib/names";
import type { View } from "../lib/state";

// Name on one line; not unique.
export function areaName(site: Site, by: GroupBy): string {
  if (isCallstack(by)) return site.callstack.slice(0, 3).map((at) => at.function).join(" ← ") || site.function;
  return by === "site" && site.line > 0 ? `${site.function}:${site.line}` : groupName(site, by).name;
}

// View after a click on a group; undefined if the group has no finer key, or no filter selects it.
export function drilled(view: View, site: Site, by: GroupBy): Partial<View> | undefined {
  const groupBy = belowOf(by), number = numberFilter(site, by), pattern = patternOf(site, by);
  if (groupBy === undefined || (number === undefined && pattern === undefined)) return undefined;
  const before = typeof view.filter["pattern"] === "string" ? view.filter["pattern"] : "";
  const filter = { ...view.filter, ...(number ?? { pattern: pattern! }) };
  return { groupBy, filter, drill: [...view.drill, { groupBy: by, pattern: before, label: areaName(site, by) }] };
}

// View before the step at index.
export function undrilled(view: View, index: number): Partial<View> {
  const step = view.drill[index];
  if (!step) return {};
  const filter = { ...view.filter };
  delete filter["pattern"];
  if (step.pattern !== "") filter["pattern"] = step.pattern;
  for (const { groupBy } of view.drill.slice(index)) {
    for (const field of numberFields(groupBy)) delete filter[field];
  }
  return { groupBy: step.groupBy, filter, drill: view.drill.slice(0, index) };
}
