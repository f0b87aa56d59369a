// SPDX-License-Identifier: Apache-2.0
// The vocabulary of measures, group keys and formats, which memprofd sends at the start, so the page repeats none of
// it.
import type { Estimate, FormatInfo, GroupKeyInfo, MeasureInfo, Site, Vocabulary } from "../../gen/messages";
import { escapeRegExp } from "./text";

// Names of MeasureInfo and GroupKeyInfo, as in the API.
export type Measure = string;
export type GroupBy = string;

let known: Vocabulary = { measures: [], group_keys: [], formats: [] };

export function setVocabulary(vocabulary: Vocabulary): void {
  known = vocabulary;
}

// Measures in bytes: those that charts and flame graphs draw.
export const measures = (): readonly MeasureInfo[] => known.measures.filter(({ unit }) => unit === "bytes");
export const groupKeys = (): readonly GroupKeyInfo[] => known.group_keys;
export const formats = (): readonly FormatInfo[] => known.formats;

const measureOf = (measure: Measure): MeasureInfo | undefined => known.measures.find(({ name }) => name === measure);
const keyOf = (by: GroupBy): GroupKeyInfo | undefined => known.group_keys.find(({ name }) => name === by);

export const measureLabel = (measure: Measure): string => measureOf(measure)?.label ?? measure;
export const groupLabel = (by: GroupBy): string => keyOf(by)?.label ?? by;
export const groupPlural = (by: GroupBy): string => keyOf(by)?.plural ?? by;

// Pairs of value and label.
export const measureOptions = (): [Measure, string][] => measures().map(({ name, label }) => [name, label]);
export const groupOptions = (): [GroupBy, string][] => groupKeys().map(({ name, label }) => [name, label]);

// True if the measure is a flow, shown per second.
export const isFlow = (measure: Measure): boolean => measureOf(measure)?.is_flow ?? false;
export const unitOf = (measure: Measure): string => (isFlow(measure) ? "/s" : "");
// Observe mode knows only allocated memory, and all measures of the native heap if it is followed.
export const isKnown = (measure: Measure, mode: string | undefined, heap?: string | string[]): boolean =>
  mode !== "observe" || heap === "c" || !(measureOf(measure)?.needs_followed_blocks ?? true);

export const NO_ESTIMATE: Estimate = { bytes: 0, bytes_stderr: 0, samples: 0, bytes_lower: 0, bytes_upper: 0 };

// Sum of independent estimates: errors and distances to the limits add as squares.
function sumOf(a: Estimate, b: Estimate): Estimate {
  const bytes = a.bytes + b.bytes;
  return { bytes, bytes_stderr: Math.hypot(a.bytes_stderr, b.bytes_stderr), samples: Number(a.samples) + Number(b.samples),
    bytes_lower: bytes - Math.hypot(a.bytes - a.bytes_lower, b.bytes - b.bytes_lower),
    bytes_upper: bytes + Math.hypot(a.bytes_upper - a.bytes, b.bytes_upper - b.bytes) };
}

// Estimate of a site for a measure in bytes; undefined: unknown.
export function estimateOf(site: Site | undefined, measure: Measure): Estimate | undefined {
  const parts = (measureOf(measure)?.estimates ?? []).map((field) => site?.[field as keyof Site] as Estimate | undefined);
  if (parts.length === 0 || parts.includes(undefined)) return undefined;
  return (parts as Estimate[]).reduce(sumOf);
}

export const isMeasure = (measure: string): boolean => measureOf(measure) !== undefined;

// Fields of a site with estimates of flows.
export const flowFields = (): ("allocated" | "promoted" | "died_young" | "died_old")[] =>
  [...new Set(measures().filter(({ is_flow: flow }) => flow).flatMap(({ estimates }) => estimates))] as never;

// ---------------------------------------------------------------- groups

const place = (site: Site): string =>
  site.file === "" ? "" : site.line > 0 ? `${site.file}:${site.line}` : site.file;

const partOf = (site: Site, field: string): string => {
  const value = site[field as keyof Site];
  return value === undefined || value === 0 ? "" : String(value);
};

// Name and location of a group.
export function groupName(site: Site, by: GroupBy): { name: string; where: string } {
  const key = keyOf(by);
  if (key === undefined) return { name: by, where: "" };
  if (key.number_field !== "") return { name: `${key.name} ${String(site[key.number_field as keyof Site])}`, where: "" };
  const [first = ""] = key.parts;
  const frame = key.whole_callstack ? site.callstack[0] : undefined;
  return { name: partOf(site, first) || frame?.function || key.nothing, where: first === "function" ? place(site) : "" };
}

// True if a group is one callstack.
export const isCallstack = (by: GroupBy): boolean => keyOf(by)?.whole_callstack ?? false;

// Complete key of a group, one part per line.
export function groupKeyOf(site: Site, by: GroupBy): string {
  const key = keyOf(by);
  if (key?.whole_callstack) return site.callstack.map((at) => `${at.function}\n${at.file}:${at.line}`).join("\n");
  if (key === undefined || key.number_field !== "" || key.parts.length < 2) return groupName(site, by).name;
  return `${site.function}\n${key.parts.includes("line") ? place(site) : site.file}`;
}

// ---------------------------------------------------------------- filters

// Fills the site's parts into the pattern; undefined if one is missing.
function filled(pattern: string, site: Site): string | undefined {
  let complete = true;
  const text = pattern.replace(/\{(\w+)\}/g, (_, field: string) => {
    const part = partOf(site, field);
    if (part === "") complete = false;
    return escapeRegExp(part);
  });
  return complete ? text : undefined;
}

// RE2 pattern for all sites of a group; undefined: none.
export function patternOf(site: Site, by: GroupBy): string | undefined {
  const key = keyOf(by);
  if (key === undefined || !new RegExp(key.patterns_need, "u").test(site.module)) return undefined;
  return key.patterns.map((pattern) => filled(pattern, site)).find((pattern) => pattern !== undefined);
}

// Pattern for a module or function given only its name.
export const patternOfName = (name: string, by: GroupBy): string | undefined =>
  patternOf({ ...({ function: "", file: "", line: 0, module: "" } as Site), [by]: name }, by);

// Filter fields that select a group with a number; undefined for other groups.
export function numberFilter(site: Site, by: GroupBy): Record<string, string | string[]> | undefined {
  const key = keyOf(by);
  if (key === undefined || key.number_field === "") return undefined;
  const value = String(site[key.number_field as keyof Site]);
  return Object.fromEntries(key.filter_fields.map((field) => [field, REPEATED.has(field) ? [value] : value]));
}
export const numberFields = (by: GroupBy): readonly string[] => keyOf(by)?.filter_fields ?? [];

// Fields of Filter that may repeat.
export const REPEATED: ReadonlySet<string> = new Set(["require", "forbid", "hide", "threads", "domains"]);

// Finer key to split a group by; undefined: none.
export const belowOf = (by: GroupBy): GroupBy | undefined => keyOf(by)?.below || undefined;
