// SPDX-License-Identifier: Apache-2.0
// The answer of memprofctl leaks in words: whether there is a leak, where, and since when.
import type { HistoryAnswer, Leak, LeakGroup, LeaksAnswer, MemoryGrowth } from "../lib/api";
import { msOf } from "../lib/api";
import { clock } from "../lib/axis";
import { bytes, change, duration, estimate } from "../lib/format";
import type { GroupBy } from "../lib/names";

// growth: memory grows, but samples do not show where.
export type Kind = "leak" | "growth" | "none" | "unknown";

export interface Suspect {
  leak: Leak;
  by: GroupBy;
  name: string;
  where: string;
  growth: string;  // "+12.3 MiB ± 0.4"
  perHour: string;  // "74 MiB ± 3 per hour"
  since: string;  // "since 14:07:10", "since 14:07:10 or earlier"; "" if unknown
  sure: string;  // "99.9 % sure"
}

export interface Verdict {
  kind: Kind;
  title: string;  // the answer
  detail: string;  // the evidence
  suspects: Suspect[];
}

const HOUR_S = 3600;
const FIRST = 3;
// A rise begins where this share of it is still to come.
const RISE = 0.95;
// A rise that begins in this first share of its session may have begun before.
const AT_ONCE = 0.1;
// Fewest moments needed to judge an area; kFewestFloors of daemon/query/memory_growth.h.
const FEWEST_MOMENTS = 10;
const AREAS: Record<MemoryGrowth["area"], string> = { MEMORY_AREA_UNSPECIFIED: "memory", MEMORY_AREA_HEAP: "OCaml heap",
  MEMORY_AREA_NATIVE: "native memory", MEMORY_AREA_MAPPED: "mapped files" };

// Begin of a rise in milliseconds: the last moment at which at most a twentieth of the rise above the least value had
// happened. null: no rise.
export function riseOf(times: readonly number[], values: readonly number[]): number | null {
  if (values.length < 2) return null;
  const last = values.at(-1)!, least = Math.min(...values), limit = last - RISE * (last - least);
  if (!(last > least)) return null;
  for (let i = values.length - 1; i >= 0; --i) if (values[i]! <= limit) return times[i]!;
  return null;
}

// "since 14:07:10" for one series of a history. Live memory restarts at zero in each session, so a rise from the
// begin of a session may be older: "or earlier".
function sinceText({ points }: HistoryAnswer, values: readonly number[]): string {
  const times = points.map((point) => msOf(point.time_unix_ns)), rise = riseOf(times, values);
  if (rise === null) return "";
  let begin = times.indexOf(rise);
  while (begin > 0 && points[begin - 1]!.session === points[begin]!.session) --begin;
  const start = times[begin]!;
  return rise - start <= AT_ONCE * (times.at(-1)! - start) ? `since ${clock(start)} or earlier` : `since ${clock(rise)}`;
}

function sinceOf({ site }: Leak, history: HistoryAnswer | null): string {
  const series = history?.series.find(({ group }) => group?.function === site.function && group.file === site.file && group.line === site.line);
  return history && series ? sinceText(history, series.values) : "";
}

// Never 100 %, because it rests on an assumption about chance.
const sureText = (confidence: number): string => `${Number((100 * Math.min(confidence, 0.999)).toPrecision(3))} % sure`;

function suspectOf(leak: Leak, by: GroupBy, name: string, since: string): Suspect {
  const { site } = leak, place = site.file === "" ? "" : site.line > 0 ? `${site.file}:${site.line}` : site.file;
  return { leak, by, name, where: place, growth: change(leak.growth_bytes, leak.growth_bytes_stderr),
    perHour: `${estimate(leak.growth_bytes_per_second * HOUR_S, leak.growth_bytes_per_second_stderr * HOUR_S)} per hour`,
    since, sure: sureText(leak.confidence) };
}

function groupSuspect({ group_by, leak }: LeakGroup): Suspect {
  return group_by === "GROUP_BY_FUNCTION" ? suspectOf(leak, "function", `${leak.site.function}, with its callees`, "")
    : suspectOf(leak, "module", `Module ${leak.site.module}`, "");
}

// "OCaml heap +41.2 MiB since 14:05:13 (99.9 % sure)" for each area that grows.
const growingAreas = (memory: readonly MemoryGrowth[]): string[] => memory.filter(({ grows }) => grows).map((of) =>
  `${AREAS[of.area]} ${change(of.end_bytes - of.begin_bytes, 0)} since ${clock(msOf(of.since_unix_ns))} (${sureText(of.confidence)})`);

// ["native memory +2.1 MiB, not certain", "mapped files: steady"], or empty.
function otherAreas(memory: readonly MemoryGrowth[]): string[] {
  const others = memory.filter(({ grows, moments }) => !grows && moments >= FEWEST_MOMENTS);
  const growthIn = ({ begin_bytes, end_bytes }: MemoryGrowth): number => end_bytes - begin_bytes;
  const isSteady = (of: MemoryGrowth): boolean => Math.abs(growthIn(of)) < of.least_growth_bytes;
  const changed = others.filter((of) => !isSteady(of)).map((of) => `${AREAS[of.area]} ${change(growthIn(of), 0)}${growthIn(of) < 0 ? "" : ", not certain"}`);
  const steady = others.filter(isSteady).map(({ area }) => AREAS[area]);
  return steady.length > 0 ? [...changed, `${steady.join(", ")}: steady`] : changed;
}

function memoryText(memory: readonly MemoryGrowth[]): string {
  const parts = [...growingAreas(memory), ...otherAreas(memory)];
  return parts.length === 0 ? "" : ` Memory of the process: ${parts.join("; ")}.`;
}

function growthOf(memory: readonly MemoryGrowth[], groups: readonly LeakGroup[]): Verdict {
  const inHeap = memory.some(({ area, grows }) => grows && area === "MEMORY_AREA_HEAP"), others = otherAreas(memory);
  const where = !inHeap ? "Resident memory, below, shows its parts." : "Samples do not show yet which code takes it" +
    (groups.length > 0 ? "; the largest growth so far, which may be chance:" : ".");
  return { kind: "growth", title: `Memory grows: ${growingAreas(memory).join("; ")}`,
    detail: [...others.map((text) => `${text[0]!.toUpperCase()}${text.slice(1)}.`), where].join(" "), suspects: groups.slice(0, FIRST).map(groupSuspect) };
}

// history: the sites over the same time; null: unknown.
export function verdictOf(answer: LeaksAnswer, history: HistoryAnswer | null): Verdict {
  const { leaks, rolled_up: groups, verdict, compared_seconds: seconds, least_leak_bytes_per_second: least } = answer;
  const time = duration(seconds), memory = memoryText(answer.memory);
  const sum = (all: readonly Leak[]): string => change(all.reduce((bytesSoFar, leak) => bytesSoFar + leak.growth_bytes, 0), 0);
  switch (verdict) {
    case "LEAK_VERDICT_SITES": {
      const more = leaks.length > FIRST ? ` The ${FIRST} most suspect of ${leaks.length} sites:` : "";
      return { kind: "leak", title: `Something is leaking: ${sum(leaks)} in ${time}`, detail: `More growth than chance explains.${memory}${more}`,
        suspects: leaks.slice(0, FIRST).map((leak) => suspectOf(leak, "site", leak.site.function || "(unknown)", sinceOf(leak, history))) };
    }
    case "LEAK_VERDICT_GROUPS":
      return { kind: "leak", title: `Something is leaking: ${sum(groups.slice(0, 1).map(({ leak }) => leak))} in ${time}`,
        detail: `No single site grows by more than chance explains; together the sites of a group do.${memory}`, suspects: groups.slice(0, FIRST).map(groupSuspect) };
    case "LEAK_VERDICT_MEMORY":
      return growthOf(answer.memory, groups);
    case "LEAK_VERDICT_NONE":
      return { kind: "none", title: `No significant growth in ${time}`, detail: (least > 0 ? `Growth of one site by less than ${bytes(least * HOUR_S)} per hour ` +
        "would not show yet; twice the time, or twice the sampling rate, halves that." : "") + memory, suspects: [] };
    default:
      return { kind: "unknown", title: "Too early to tell whether something leaks",
        detail: `Growth is compared between major collections, and too few have ended.${memory}`, suspects: [] };
  }
}
