// SPDX-License-Identifier: Apache-2.0
// Pointer and wheel on a chart move or zoom the time axis of all charts.
import type { App } from "../app";
import { shifted, zoomed } from "../lib/axis";
import type { Range } from "../lib/state";

export interface Moves {
  onBrush(range: Range): void;
  onZoom(around: number, factor: number): void; // around: ms; factor 0.5 shows half as much
  onShift(share: number): void; // share of the axis
  onReset(): void;
}

export function movesOf(app: App): Moves {
  const setAxis = (axis: Range | undefined) => app.store.update({ axis });
  return {
    onBrush: (range) => app.store.update({ begin: Math.max(0, range.begin), end: Math.min(range.end, app.recorded().now), live: false,
      axis: app.axis() }, true),
    onZoom: (around, factor) => setAxis(zoomed(app.axis(), around, factor, app.recorded())),
    onShift: (share) => {
      const axis = app.axis();
      setAxis(shifted(axis, share * (axis.end - axis.begin), app.recorded()));
    },
    onReset: () => setAxis(undefined),
  };
}

// Handles the wheel with a modifier key, and the double click.
export function listenToMoves(over: HTMLElement, msAt: (x: number) => number, moves: Moves): void {
  over.addEventListener("dblclick", () => moves.onReset());
  over.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      moves.onZoom(msAt(event.offsetX), event.deltaY < 0 ? 0.8 : 1.25);
    } else if (event.shiftKey) {
      event.preventDefault();
      moves.onShift((event.deltaY || event.deltaX) < 0 ? -0.1 : 0.1);
    }
  }, { passive: false });
}
