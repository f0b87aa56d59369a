// SPDX-License-Identifier: Apache-2.0
// What is recorded of each target and what time it is there: the daemon's clock need
// not be the browser's.
import { msOf, type HistoryAnswer } from "./api";
import type { Recorded } from "./axis";

interface Known {
  begin: number;
  end: number; // of the last answer up to now
  at: number; // browser's clock when it came
  peak: number;
}

export class Clocks {
  private readonly known = new Map<number, Known>();

  // answer: of a question up to now.
  note(pid: number, answer: HistoryAnswer): void {
    this.known.set(pid, { begin: msOf(answer.oldest_unix_ns), end: msOf(answer.range.end_unix_ns), at: Date.now(),
      peak: msOf(answer.peak_unix_ns) });
  }

  // runs: whether the target is still recorded. attached: milliseconds, for a target of
  // which nothing is known yet.
  recorded(pid: number, runs: boolean, attached: number): Recorded {
    const known = this.known.get(pid);
    if (!known) return { begin: attached, now: Math.max(Date.now(), attached + 1000), peak: 0 };
    const now = known.end + (runs ? Date.now() - known.at : 0);
    return { begin: Math.min(known.begin, now - 1000), now, peak: known.peak };
  }
}
