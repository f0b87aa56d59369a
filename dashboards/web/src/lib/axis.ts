// SPDX-License-Identifier: Apache-2.0
// The time axis that all charts share, and texts for times.
import type { Range, View } from "./state";

// Recorded time of a target, milliseconds since the epoch by the daemon's clock.
export interface Recorded {
  begin: number; // only sums are known before
  now: number;
  peak: number; // when live memory was highest; 0: unknown
}

const SHORTEST_MS = 2000;

// The visible part of the recorded time.
export function axisOf(view: View, recorded: Recorded): Range {
  if (view.axis) return view.axis;
  const end = view.live ? recorded.now : Math.max(view.end ?? recorded.now, recorded.begin + SHORTEST_MS);
  const begin = view.span === 0 ? recorded.begin : Math.max(recorded.begin, end - view.span * 1000);
  return { begin: Math.min(begin, end - SHORTEST_MS), end };
}

// Zooms around a moment: factor 0.5 shows half as much.
export function zoomed(axis: Range, around: number, factor: number, recorded: Recorded): Range | undefined {
  const all = recorded.now - recorded.begin;
  const width = Math.max(SHORTEST_MS, (axis.end - axis.begin) * factor);
  if (width >= all) return { begin: recorded.begin, end: recorded.now };
  const share = (around - axis.begin) / (axis.end - axis.begin);
  return shifted({ begin: around - share * width, end: around + (1 - share) * width }, 0, recorded);
}

// Moves the axis within the recorded time.
export function shifted(axis: Range, by: number, recorded: Recorded): Range {
  const width = axis.end - axis.begin;
  const begin = Math.max(recorded.begin, Math.min(axis.begin + by, recorded.now - width));
  return { begin, end: begin + width };
}

// Moves the axis as little as possible to show a moment.
export function showing(axis: Range, moment: number): Range {
  if (moment > axis.end) return { begin: axis.begin + moment - axis.end, end: moment };
  if (moment < axis.begin) return { begin: moment, end: axis.end + moment - axis.begin };
  return axis;
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

// "14:05:10", preceded by the day unless it is today.
export function clock(ms: number): string {
  const date = new Date(ms);
  const time = TIME.format(date);
  return date.toDateString() === new Date().toDateString() ? time : `${DAY.format(date)} ${time}`;
}
export const clockRange = ({ begin, end }: Range): string => `${clock(begin)} – ${clock(end)}`;

const MINUTES = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// Distances of ticks in seconds. They are finer than uPlot's, so that a narrow chart shows more than one time.
export const TICK_SECONDS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map((minutes) => minutes * 60)];

// Texts of ticks stepSeconds apart; the day is added where it changes.
export function tickTimes(ticks: number[], stepSeconds: number): string[] {
  const format = stepSeconds < 60 ? TIME : MINUTES;
  let day = new Date().toDateString();
  return ticks.map((seconds) => {
    const date = new Date(seconds * 1000), isNew = date.toDateString() !== day;
    day = date.toDateString();
    return isNew ? `${DAY.format(date)} ${format.format(date)}` : format.format(date);
  });
}

// "UTC+1" for the browser's time zone.
export function zone(): string {
  const minutes = -new Date().getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const hours = Math.floor(Math.abs(minutes) / 60), rest = Math.abs(minutes) % 60;
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}
