// SPDX-License-Identifier: Apache-2.0
// Moves through time, as changes of the view.
import type { Range, View } from "../lib/state";
import { showing, shifted, zoomed, type Recorded } from "../lib/axis";

// Moves the cursor to a moment; moves the axis only as far as needed to show it. memprofd refuses a
// range that ends at the start of the recording or before: nothing is in it.
export function at(view: View, axis: Range, moment: number, recorded: Recorded): Partial<View> {
  const end = Math.max(recorded.begin + 1, Math.min(moment, recorded.now));
  const begin = view.begin !== undefined && view.begin >= end ? undefined : view.begin;
  return { live: false, end, begin, axis: showing(axis, end) };
}

export function live(view: View): Partial<View> {
  // Drops a selected range, which ends in the past; a start alone stays.
  const isRange = view.begin !== undefined && view.end !== undefined;
  return { live: true, end: undefined, axis: undefined, ...(isRange ? { begin: undefined } : {}) };
}

export function chosen(view: View, now: number): Range | undefined {
  return view.begin === undefined ? undefined : { begin: view.begin, end: view.end ?? now };
}

// The range of equal length just before.
export function before({ begin, end }: Range, recorded: Recorded): Range | undefined {
  const from = Math.max(recorded.begin, begin - (end - begin));
  return from < begin ? { begin: from, end: begin } : undefined;
}

// An axis with the range in its middle.
export function around({ begin, end }: Range, recorded: Recorded): Range | undefined {
  const margin = (end - begin) * 0.1;
  return shifted({ begin: begin - margin, end: end + margin }, 0, recorded);
}

export function zoom(axis: Range, factor: number, view: View, recorded: Recorded): Range | undefined {
  const middle = !view.live && view.end !== undefined && view.end > axis.begin && view.end < axis.end
    ? view.end : factor < 1 && view.live ? axis.end : (axis.begin + axis.end) / 2;
  return zoomed(axis, middle, factor, recorded);
}

// A hundredth of the axis, in whole seconds.
export const stepOf = (axis: Range): number => Math.max(1, Math.round((axis.end - axis.begin) / 100_000)) * 1000;
