// SPDX-License-Identifier: Apache-2.0
// What memprofd knows of leaks in a program, in words: is something leaking, where, since when.
import type { HistoryAnswer, Leak, LeaksAnswer } from "../lib/api";
import { msOf } from "../lib/api";
import { clock } from "../lib/axis";
import { bytes, change, duration, estimate, share } from "../lib/format";

export type Kind = "leak" | "none" | "unknown";

export interface Suspect {
  leak: Leak;
  name: string;
  where: string;
  growth: string;  // "+12.3 MiB ± 0.4"
  perHour: string;  // "74 MiB ± 3 per hour"
  since: string;  // "since 14:07:10"; "" when that is not known
  sure: string;  // "sure to 99.9 %"
}

export interface Verdict {
  kind: Kind;
  title: string;  // the answer
  detail: string;  // what it rests on
  suspects: Suspect[];
}

const HOUR_S = 3600;
const FIRST = 3;
// A rise begins where this share of it is still to come.
const RISE = 0.95;

// When a course that has risen began to, in milliseconds: the last moment at which it was no higher than at its
// least but for a twentieth of the rise. null: it has not risen.
export function riseOf(times: readonly number[], values: readonly number[]): number | null {
  if (values.length < 2) return null;
  const last = values.at(-1)!, least = Math.min(...values), limit = last - RISE * (last - least);
  if (!(last > least)) return null;
  for (let i = values.length - 1; i >= 0; --i) if (values[i]! <= limit) return times[i]!;
  return null;
}

// How many bytes more the runtime's heap and the process have than at the begin of the history.
function grownText({ points }: HistoryAnswer): string {
  const grown = (of: (point: HistoryAnswer["points"][number]) => number): string => {
    const known = points.map(of).filter((value) => value > 0);
    return known.length < 2 ? "" : change(known.at(-1)! - known[0]!, 0);
  };
  const heap = grown((point) => Number(point.heap_bytes)), rss = grown((point) => Number(point.memory?.resident_bytes ?? 0));
  return [heap && `heap ${heap}`, rss && `RSS ${rss}`].filter(Boolean).join(", ");
}

function suspectOf(leak: Leak, since: number | null): Suspect {
  const { site } = leak, place = site.file === "" ? "" : site.line > 0 ? `${site.file}:${site.line}` : site.file;
  return { leak, name: site.function || "(unknown)", where: place,
    growth: change(leak.growth_bytes, leak.growth_bytes_stderr),
    perHour: `${estimate(leak.growth_bytes_per_second * HOUR_S, leak.growth_bytes_per_second_stderr * HOUR_S)} per hour`,
    since: since === null ? "" : `since ${clock(since)}`,
    sure: leak.confidence >= 0.995 ? "certain" : `sure to ${share(leak.confidence, 1)}` };
}

// history: of the sites of the same time, by site; null: not known yet.
export function verdictOf(answer: LeaksAnswer, history: HistoryAnswer | null): Verdict {
  const { leaks, compared_seconds: seconds, least_leak_bytes_per_second: least } = answer;
  const time = duration(seconds), grown = history ? grownText(history) : "", whole = grown === "" ? "" : ` In all: ${grown}.`;
  if (leaks.length > 0) {
    const times = history?.points.map((point) => msOf(point.time_unix_ns)) ?? [];
    const since = ({ site }: Leak): number | null => {
      const series = history?.series.find(({ group }) => group?.function === site.function && group.file === site.file && group.line === site.line);
      return series ? riseOf(times, series.values) : null;
    };
    const sum = leaks.reduce((bytesSoFar, leak) => bytesSoFar + leak.growth_bytes, 0);
    const more = leaks.length > FIRST ? `; the ${FIRST} most suspect of ${leaks.length} sites` : "";
    return { kind: "leak", title: `Something is leaking: ${change(sum, 0)} in ${time}`,
      detail: `By more than chance explains${more}.${whole}`, suspects: leaks.slice(0, FIRST).map((leak) => suspectOf(leak, since(leak))) };
  }
  if (seconds === 0) {
    return { kind: "unknown", title: "Too early to tell whether something leaks",
      detail: `Growth is compared between major collections, and too few have ended.${whole}`, suspects: [] };
  }
  return { kind: "none", title: `No significant growth in ${time}`,
    detail: (least > 0 ? `So far only growth above ${bytes(least * HOUR_S)} per hour would show; in twice the time, or at twice the sampling rate, half of it.` : "") + whole,
    suspects: [] };
}
