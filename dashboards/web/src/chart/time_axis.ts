// SPDX-License-Identifier: Apache-2.0
// What all charts show of the time axis that they share; pid: whose phases.
import type { App } from "../app";
import type { View } from "../lib/state";
import type { Marks } from "./marks";
import type { Stack } from "./stack";

export function marksOf(app: App, view: View, pid = view.pid): Marks {
  const chosen = view.begin === undefined ? undefined
    : { begin: view.begin, end: view.end ?? app.recorded().now };
  return { chosen, base: view.compare, cursor: view.live ? undefined : view.end, phases: app.phases(pid) };
}

// The moment that a legend tells of: pointed at, or the cursor, or the last.
export function shownIndex({ times }: Stack, view: View, pointed: number | null): number {
  if (pointed !== null && pointed < times.length) return pointed;
  if (view.live || view.end === undefined) return times.length - 1;
  const at = times.findIndex((time) => time * 1000 >= view.end! - 500);
  return at < 0 ? times.length - 1 : at;
}
