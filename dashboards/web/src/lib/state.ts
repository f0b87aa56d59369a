// SPDX-License-Identifier: Apache-2.0
// The view: all state that decides what the page shows. location.hash holds it, so that the address reproduces the
// page.

import { groupKeys, measures, REPEATED, type GroupBy, type Measure } from "./names";

// Milliseconds since the Unix epoch.
export interface Range {
  begin: number;
  end: number;
}

// A phase that a program publishes; without end it is still running.
export interface Phase {
  name: string;
  begin: number;
  end?: number | undefined;
}

// An additional chart on the time axis.
export interface ChartSpec {
  pid: number;
  groupBy: GroupBy;
  measure: Measure;
}

// The state before a drill-down.
export interface DrillStep {
  groupBy: GroupBy;
  pattern: string; // pattern of the filter before the step
  label: string; // the group that was opened
}

export interface View {
  pid: number; // 0: none selected
  live: boolean; // end follows the present; otherwise end is set
  // The counted range in milliseconds since the epoch. begin undefined: the attach. end undefined: now. Live memory
  // is that at the end.
  begin?: number | undefined;
  end?: number | undefined;
  compare?: Range | undefined; // base of a comparison with begin to end
  axis?: Range | undefined; // the zoomed time axis; undefined: the last span seconds
  span: number; // seconds; 0: all recorded time
  groupBy: GroupBy;
  measure: Measure;
  // Fields of the API's Filter: {pattern: "...", hide: ["...", "..."], heap: "major"}.
  filter: Record<string, string | string[]>;
  drill: DrillStep[];
  charts: ChartSpec[];
  tab: string;
  // Panel state in the address, by "panel.name": {"flame.zoom": "1.4"}.
  extra: Record<string, string>;
}

// Text of the search field at the top of the page; "" if empty.
export const searchOf = (view: View): string => view.extra["search"] ?? "";

// Names of the selected stored snapshots, at most two.
export const heapsOf = (view: View): string[] => (view.extra["heaps"] ?? "").split(",").filter((name) => name !== "").slice(0, 2);
// Adds or removes a snapshot; a third replaces the first.
export const withHeap = (chosen: readonly string[], name: string): string =>
  (chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name].slice(-2)).join(",");

export const DEFAULT_VIEW: View = {
  pid: 0,
  live: true,
  span: 600,
  // Leaks stand out by function; by module they may be part of the only area.
  groupBy: "function",
  measure: "live",
  filter: {},
  drill: [],
  charts: [],
  tab: "sites",
  extra: {},
};

const rangeText = (range: Range) => `${Math.round(range.begin)}-${Math.round(range.end)}`;

function rangeOf(text: string | null): Range | undefined {
  const match = /^(\d+)-(\d+)$/.exec(text ?? "");
  if (!match) return undefined;
  const range = { begin: Number(match[1]), end: Number(match[2]) };
  return range.begin < range.end ? range : undefined;
}

function oneOf(known: readonly { name: string }[], text: string | null, otherwise: string): string {
  return known.find(({ name }) => name === text)?.name ?? otherwise;
}

function timeOf(text: string | null): number | undefined {
  const time = Number(text);
  return text !== null && text !== "" && Number.isFinite(time) && time > 0 ? time : undefined;
}

export function toHash(view: View): string {
  const out = new URLSearchParams();
  if (view.pid !== 0) out.set("pid", String(view.pid));
  if (!view.live) out.set("live", "0");
  if (view.begin !== undefined) out.set("begin", String(Math.round(view.begin)));
  if (view.end !== undefined && !view.live) out.set("end", String(Math.round(view.end)));
  if (view.compare) out.set("compare", rangeText(view.compare));
  if (view.axis) out.set("axis", rangeText(view.axis));
  if (view.span !== DEFAULT_VIEW.span) out.set("span", String(view.span));
  if (view.groupBy !== DEFAULT_VIEW.groupBy) out.set("by", view.groupBy);
  if (view.measure !== DEFAULT_VIEW.measure) out.set("m", view.measure);
  if (view.tab !== DEFAULT_VIEW.tab) out.set("tab", view.tab);
  for (const [name, value] of Object.entries(view.filter)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== "") out.append(`f.${name}`, one);
    }
  }
  for (const { groupBy, pattern, label } of view.drill) {
    out.append("drill", JSON.stringify([groupBy, pattern, label]));
  }
  for (const { pid, groupBy, measure } of view.charts) out.append("chart", `${pid}.${groupBy}.${measure}`);
  for (const [name, value] of Object.entries(view.extra)) {
    if (value !== "") out.set(`x.${name}`, value);
  }
  return `#${out}`;
}

function filterOf(given: URLSearchParams): View["filter"] {
  const out: View["filter"] = {};
  for (const [key, value] of given) {
    if (!key.startsWith("f.") || value === "") continue;
    const name = key.slice(2);
    if (REPEATED.has(name)) out[name] = [...((out[name] as string[] | undefined) ?? []), value];
    else out[name] = value;
  }
  return out;
}

function drillOf(text: string): DrillStep[] {
  try {
    const parts: unknown = JSON.parse(text);
    if (!Array.isArray(parts) || parts.length !== 3 || !parts.every((part) => typeof part === "string")) return [];
    const [groupBy, pattern, label] = parts as [string, string, string];
    return [{ groupBy: oneOf(groupKeys(), groupBy, "site"), pattern, label }];
  } catch {
    return [];
  }
}

function chartOf(text: string): ChartSpec[] {
  const match = /^(\d+)\.(\w+)\.(\w+)$/.exec(text);
  if (!match) return [];
  return [{
    pid: Number(match[1]),
    groupBy: oneOf(groupKeys(), match[2]!, "module"),
    measure: oneOf(measures(), match[3]!, "live"),
  }];
}

// Never fails; ignores invalid parts.
export function fromHash(hash: string): View {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const end = timeOf(given.get("end"));
  const begin = timeOf(given.get("begin"));
  const span = Number(given.get("span") ?? DEFAULT_VIEW.span);
  const extra: Record<string, string> = {};
  for (const [key, value] of given) if (key.startsWith("x.")) extra[key.slice(2)] = value;
  return {
    pid: Math.trunc(Number(given.get("pid"))) || 0,
    live: end === undefined,
    begin: begin !== undefined && end !== undefined && begin >= end ? undefined : begin,
    end,
    compare: rangeOf(given.get("compare")),
    axis: rangeOf(given.get("axis")),
    span: Number.isFinite(span) && span >= 0 ? span : DEFAULT_VIEW.span,
    groupBy: oneOf(groupKeys(), given.get("by"), DEFAULT_VIEW.groupBy),
    measure: oneOf(measures(), given.get("m"), DEFAULT_VIEW.measure),
    filter: filterOf(given),
    drill: given.getAll("drill").flatMap(drillOf),
    charts: given.getAll("chart").flatMap(chartOf).slice(0, 6),
    tab: given.get("tab") ?? DEFAULT_VIEW.tab,
    extra,
  };
}

export type Listener = (view: View, before: View) => void;

// Holds the view, notifies subscribers of changes, and updates the address.
export class Store {
  private view = fromHash(location.hash);
  private readonly listeners = new Set<Listener>();

  constructor() {
    window.addEventListener("hashchange", () => this.set(fromHash(location.hash)));
  }

  get(): View {
    return this.view;
  }

  // "Back" in the browser undoes a step; other changes replace the last one.
  update(change: Partial<View>, step = false): void {
    const view = { ...this.view, ...change };
    const hash = toHash(view);
    if (hash !== location.hash) {
      if (step) history.pushState(null, "", hash);
      else history.replaceState(null, "", hash);
    }
    this.set(view);
  }

  // Sets a panel's state in the address; "" removes it.
  setExtra(name: string, value: string, step = false): void {
    const extra = { ...this.view.extra, [name]: value };
    if (value === "") delete extra[name];
    this.update({ extra }, step);
  }

  // Returns a function that unsubscribes.
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private set(view: View): void {
    const before = this.view;
    this.view = view;
    for (const listener of this.listeners) listener(view, before);
  }
}
