// SPDX-License-Identifier: Apache-2.0
// Questions that pause the program. Where memprofd refuses one because the pause would be too long, the way to
// allow it stands beside the reason.
import { ApiError } from "./api";
import { button, make } from "./dom";
import { duration } from "./format";

// Said wherever control is needed and memprofd does not allow it to the page.
export const CONTROL_OFF = "Control from the page is off: start memprofd with --web.enable-control";

// The reason in words and, where a longer pause would do, the button that allows it; null: what is shown in words
// alone. again: asks once more, with so many seconds allowed.
export function refusalOf(error: unknown, again: (maxPauseSeconds: number) => void): { text: string; button: HTMLButtonElement | null } {
  const refusal = error instanceof ApiError ? error.refusal : undefined;
  if (!refusal) return { text: error instanceof Error ? error.message : String(error), button: null };
  const { predicted, allowed, enough } = refusal;
  const text = predicted > 0 ? `The program would be paused for about ${duration(predicted)}; ${duration(allowed)} are allowed without asking.`
    : `Its domains could not be stopped together in ${duration(allowed)}.`;
  const label = predicted > 0 ? `Takes about ${duration(predicted)}: take it` : `Allow ${duration(enough)}: take it`;
  return { text, button: button(label, () => again(enough), { className: "button small allow-pause" }) };
}

// The same as one element.
export function refused(error: unknown, again: (maxPauseSeconds: number) => void): HTMLElement {
  const { text, button: allow } = refusalOf(error, again);
  return make("p", { className: "error" }, text, ...(allow ? [" ", allow] : []));
}
