// SPDX-License-Identifier: Apache-2.0
// Questions that pause the program. If memprofd refuses one because the pause would be too long, a button next to the
// reason allows it.
import { ApiError } from "./api";
import { button, make } from "./dom";
import { duration } from "./format";

// Shown where a control is disabled because memprofd does not allow control from the page.
export const CONTROL_OFF = "Control from the page is off: start memprofd with --web.enable-control";

// The reason, and a button that allows a longer pause; null if none would help. again repeats the question with that
// limit in seconds.
export function refusalOf(error: unknown, again: (maxPauseSeconds: number) => void): { text: string; button: HTMLButtonElement | null } {
  const refusal = error instanceof ApiError ? error.refusal : undefined;
  if (!refusal) return { text: error instanceof Error ? error.message : String(error), button: null };
  const { predicted, allowed, enough } = refusal;
  const text = predicted > 0 ? `The program would be paused for about ${duration(predicted)}; ${duration(allowed)} are allowed without asking.`
    : `Its domains could not be stopped together in ${duration(allowed)}.`;
  const label = predicted > 0 ? `Takes about ${duration(predicted)}: take it` : `Allow ${duration(enough)}: take it`;
  return { text, button: button(label, () => again(enough), { className: "button small allow-pause" }) };
}

// Reason and button as one element.
export function refused(error: unknown, again: (maxPauseSeconds: number) => void): HTMLElement {
  const { text, button: allow } = refusalOf(error, again);
  return make("p", { className: "error" }, text, ...(allow ? [" ", allow] : []));
}
