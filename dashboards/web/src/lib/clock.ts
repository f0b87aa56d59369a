// SPDX-License-Identifier: Apache-2.0
// Recorded time of each target by the daemon's clock, which may differ from the browser's.
import { msOf, type HistoryAnswer } from "./api";
import type { Recorded } from "./axis";

interface Known {
  begin: number;
  end: number; // end of the last answer that ended now
  at: number; // browser's clock on its arrival
  peak: number;
}

export class Clocks {
  private readonly known = new Map<number, Known>();

  // answer: a history that ends now.
  note(pid: number, answer: HistoryAnswer): void {
    this.known.set(pid, { begin: msOf(answer.oldest_unix_ns), end: msOf(answer.range.end_unix_ns), at: Date.now(),
      peak: msOf(answer.peak_unix_ns) });
  }

  // runs: the target is still recorded. attached: attach time in milliseconds, used for an unknown target.
  recorded(pid: number, runs: boolean, attached: number): Recorded {
    const known = this.known.get(pid);
    if (!known) return { begin: attached, now: Math.max(Date.now(), attached + 1000), peak: 0 };
    const now = known.end + (runs ? Date.now() - known.at : 0);
    return { begin: Math.min(known.begin, now - 1000), now, peak: known.peak };
  }
}
