// SPDX-License-Identifier: Apache-2.0
// Marks on the shared time axis of all charts. pid selects whose phases are shown.
import type { App } from "../app";
import type { View } from "../lib/state";
import type { Marks } from "./marks";
import type { Stack } from "./stack";

export function marksOf(app: App, view: View, pid = view.pid): Marks {
  const chosen = view.begin === undefined ? undefined
    : { begin: view.begin, end: view.end ?? app.recorded().now };
  return { chosen, base: view.compare, cursor: view.live ? undefined : view.end, phases: app.phases(pid) };
}

// Index of the moment that a legend describes: under the pointer, else at the cursor, else the last.
export function shownIndex({ times }: Stack, view: View, pointed: number | null): number {
  if (pointed !== null && pointed < times.length) return pointed;
  if (view.live || view.end === undefined) return times.length - 1;
  const at = times.findIndex((time) => time * 1000 >= view.end! - 500);
  return at < 0 ? times.length - 1 : at;
}
