// SPDX-License-Identifier: Apache-2.0
// Converts a history answer to stacked areas. Order and colours stay the same while the page is live.
import { msOf, type HistoryAnswer, type HistoryPoint, type MemoryParts, type Site } from "../lib/api";
import { groupKeyOf, type GroupBy } from "../lib/names";
import { areaName } from "./groups";

export interface Area {
  key: string;
  label: string;
  site: Site | null; // null: all others
  slot: number; // of the palette; -1: others
  values: number[];
  errors: number[];
  lowers: number[]; // limits of the 95 % intervals
  uppers: number[];
  top: number[]; // sum of this area and those below it
}

export interface Moment {
  heap: number | null; // bytes; null until its counters have been read
  live: number; // bytes, estimated, without filter
  minor: number; // collections in the step
  major: number;
  compactions: number;
  dropped: number; // events in the step
  seconds: number; // length of the step
  anew: boolean; // sampling restarted in the step; live memory restarted at zero
  memory: MemoryParts | null; // memory of the whole process; null: unknown
}

export interface Stack {
  by: GroupBy;
  times: number[]; // ends of steps, seconds since the epoch
  moments: Moment[];
  areas: Area[]; // from the bottom up
}

export const SLOTS = 10;
const OTHER = "\0other";

// Remembers the colour of each group.
export class Slots {
  private readonly slots = new Map<string, number>();

  assign(keys: string[]): number[] {
    for (const key of [...this.slots.keys()]) if (!keys.includes(key)) this.slots.delete(key);
    const taken = new Set(this.slots.values());
    for (const key of keys) {
      if (this.slots.has(key)) continue;
      let slot = 0;
      while (taken.has(slot)) ++slot;
      taken.add(slot);
      this.slots.set(key, slot);
    }
    return keys.map((key) => this.slots.get(key)!);
  }
}

// Keeps the order of earlier areas; new ones follow.
function inOldOrder(areas: Area[], before: Area[]): Area[] {
  const rank = new Map(before.map((area, index) => [area.key, index]));
  const last = before.length;
  return areas.map((area, index) => ({ area, rank: rank.get(area.key) ?? last + index }))
    .sort((a, b) => a.rank - b.rank).map(({ area }) => area);
}

function difference(points: HistoryPoint[], field: "minor_collections" | "major_collections" | "compactions" | "dropped_events") {
  return points.map((point, i) => (i === 0 ? 0 : Math.max(0, Number(point[field]) - Number(points[i - 1]![field]))));
}

function momentsOf(points: HistoryPoint[]): Moment[] {
  const minor = difference(points, "minor_collections"), major = difference(points, "major_collections");
  const compactions = difference(points, "compactions"), dropped = difference(points, "dropped_events");
  return points.map((point, i) => ({
    heap: Number(point.heap_bytes) || null, live: point.live_bytes, seconds: point.step_seconds,
    minor: minor[i]!, major: major[i]!, compactions: compactions[i]!, dropped: dropped[i]!,
    anew: i > 0 && point.session !== points[i - 1]!.session, memory: point.memory ?? null,
  }));
}

export function stackOf(answer: HistoryAnswer, by: GroupBy, slots: Slots, before: Stack | null): Stack {
  const named = answer.series.map((series) => ({ series, site: series.group! }));
  const keys = named.map(({ site }) => groupKeyOf(site, by));
  const colours = slots.assign(keys);
  let areas: Area[] = named.map(({ series, site }, i) => ({
    key: keys[i]!, label: areaName(site, by), site, slot: colours[i]!,
    values: series.values, errors: series.stderrs, lowers: series.lowers, uppers: series.uppers, top: [],
  }));
  if (before?.by === by) areas = inOldOrder(areas, before.areas);
  if (answer.other?.values.some((value) => value > 0)) {
    areas.push({ key: OTHER, label: "other", site: null, slot: -1, values: answer.other.values,
      errors: answer.other.stderrs, lowers: answer.other.lowers, uppers: answer.other.uppers, top: [] });
  }
  pile(areas, answer.points.length);
  return { by, times: answer.points.map((point) => msOf(point.time_unix_ns) / 1000),
    moments: momentsOf(answer.points), areas };
}

// Sets the top of each area on top of the one below, for each of the points.
export function pile(areas: Area[], points: number): void {
  let below: number[] = Array.from({ length: points }, () => 0);
  for (const area of areas) {
    area.top = area.values.map((value, i) => value + below[i]!);
    below = area.top;
  }
}

// Sum of all areas at a point with its error; areas are independent.
export function totalAt(stack: Stack, index: number): { value: number; error: number } {
  let value = 0, variance = 0;
  for (const area of stack.areas) {
    value += area.values[index] ?? 0;
    variance += (area.errors[index] ?? 0) ** 2;
  }
  return { value, error: Math.sqrt(variance) };
}

// The area at this height, or null.
export function areaAt(stack: Stack, index: number, height: number): Area | null {
  if (height < 0) return null;
  return stack.areas.find((area) => height <= area.top[index]!) ?? null;
}
