// SPDX-License-Identifier: Apache-2.0
// Rates of allocation and collection, from the counters of targets at two moments.
import type { Target } from "../lib/api";
import { NO_ESTIMATE } from "../lib/names";

interface Reading { at: number; words: number; bytes: number; variance: number; minor: number; major: number }
export interface Rates {
  bytes: number; // allocated per second
  error: number; // one standard error; 0: exact number of the runtime
  minor: number; // collections per second
  major: number | undefined; // cycles per second; undefined: too early
}

const RATE_MS = 10_000;
const KEPT_MS = 120_000;  // major cycles are rare
const MAJOR_MS = 20_000;
const WORD = 8;

function reading(target: Target, at: number): Reading {
  const { gc, allocated = NO_ESTIMATE } = target;
  return { at, words: gc ? gc.minor_words + gc.major_words - gc.promoted_words : NaN, bytes: allocated.bytes,
    variance: allocated.bytes_stderr ** 2, minor: Number(gc?.minor_collections ?? 0), major: Number(gc?.major_collections ?? 0) };
}

export class RateMeter {
  private readonly readings = new Map<number, Reading[]>();

  note(target: Target, at: number): void {
    const readings = this.readings.get(target.pid) ?? [];
    const next = reading(target, at);
    // The target was attached again; its counters have restarted.
    if (readings.length > 0 && next.bytes < readings[0]!.bytes) readings.length = 0;
    if (readings.length === 0 || at - readings.at(-1)!.at > 500) readings.push(next);
    while (readings.length > 2 && at - readings[1]!.at >= KEPT_MS) readings.shift();
    this.readings.set(target.pid, readings);
  }

  // Bytes and minor collections over ten seconds, major cycles over two minutes. Undefined until there are two
  // readings.
  rates(pid: number): Rates | undefined {
    const readings = this.readings.get(pid) ?? [], oldest = readings[0], last = readings.at(-1);
    if (!oldest || !last || last.at - oldest.at < 1000) return undefined;
    const first = readings.findLast(({ at }) => last.at - at >= RATE_MS) ?? oldest;
    const seconds = (last.at - first.at) / 1000, isExact = Number.isFinite(last.words - first.words);
    return {
      bytes: (isExact ? (last.words - first.words) * WORD : last.bytes - first.bytes) / seconds,
      error: isExact ? 0 : Math.sqrt(Math.max(0, last.variance - first.variance)) / seconds,
      minor: (last.minor - first.minor) / seconds,
      major: last.at - oldest.at < MAJOR_MS ? undefined : (last.major - oldest.major) * 1000 / (last.at - oldest.at),
    };
  }
}
