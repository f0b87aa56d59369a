// SPDX-License-Identifier: Apache-2.0
// What all charts do with the time axis that they share.
import type { App } from "../app";
import { shifted, zoomed } from "../lib/axis";
import type { Range, View } from "../lib/state";
import type { AreaChartEvents } from "./area_chart";
import type { Marks } from "./marks";
import type { Stack } from "./stack";

export function timeEvents(app: App): Pick<AreaChartEvents, "onBrush" | "onZoom" | "onShift" | "onReset"> {
  const setAxis = (axis: Range | undefined): void => app.store.update({ axis });
  return {
    onBrush: ({ begin, end }) => app.store.update({ begin: Math.max(0, begin), end: Math.min(end, app.recorded().now),
      live: false, axis: app.axis() }, true),
    onZoom: (around, factor) => setAxis(zoomed(app.axis(), around, factor, app.recorded())),
    onShift: (share) => {
      const axis = app.axis();
      setAxis(shifted(axis, share * (axis.end - axis.begin), app.recorded()));
    },
    onReset: () => setAxis(undefined),
  };
}

export function marksOf(app: App, view: View): Marks {
  const chosen = view.begin === undefined ? undefined
    : { begin: view.begin, end: view.end ?? app.recorded().now };
  return { chosen, base: view.compare, cursor: view.live ? undefined : view.end };
}

// The moment that a legend tells of: pointed at, or the cursor, or the last.
export function shownIndex({ times }: Stack, view: View, pointed: number | null): number {
  if (pointed !== null && pointed < times.length) return pointed;
  if (view.live || view.end === undefined) return times.length - 1;
  const at = times.findIndex((time) => time * 1000 >= view.end! - 500);
  return at < 0 ? times.length - 1 : at;
}
