// SPDX-License-Identifier: Apache-2.0
// A few lines on the time axis that all charts share, above the range of each step.
import uPlot from "uplot";
import { BINARY, brushed, SIDE_PX } from "../chart/area_chart";
import { drawCursor, drawRanges, type Marks } from "../chart/marks";
import { listenToMoves, type Moves } from "../chart/moves";
import { TICK_SECONDS, tickTimes } from "../lib/axis";
import { paletteOf, type Palette } from "../lib/palette";
import type { Range } from "../lib/state";

export interface DrawnLine {
  label: string;
  values: readonly number[]; // NaN draws nothing
  lows?: readonly number[]; // least values of each step
  highs?: readonly number[];
  slot: number; // slot of the palette; -1: colour of the heap line
  dash?: boolean;
}

export interface Lines {
  times: readonly number[]; // seconds since the epoch
  lines: readonly DrawnLine[];
  axis: Range;
  marks: Marks;
  dark: boolean;
  tick(value: number): string;
  isBinary?: boolean; // ticks are at powers of two
}

const HEIGHT_PX = 110;
const AXIS_PX = 22;

export class LineChart {
  readonly element = document.createElement("div");
  private plot: uPlot | null = null;
  private built = "";
  private shown: Lines | null = null;
  private palette: Palette = paletteOf(false);
  private readonly resized = new ResizeObserver(() => this.fit());

  // onPoint reports the data point under the pointer on any chart; null: none.
  constructor(private readonly moves: Moves, private readonly onPoint: (index: number | null) => void) {
    this.element.className = "plot";
    this.resized.observe(this.element);
  }

  destroy(): void {
    this.resized.disconnect();
    this.plot?.destroy();
    this.element.remove();
  }

  show(shown: Lines): void {
    this.shown = shown;
    this.palette = paletteOf(shown.dark);
    const built = JSON.stringify([shown.dark, shown.lines.map(({ label, slot, lows }) => [label, slot, lows !== undefined])]);
    if (this.plot && built === this.built) {
      this.plot.setData(this.data(), false);
    } else {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), this.data(), this.element);
      listenToMoves(this.plot.over, (x) => this.plot!.posToVal(x, "x") * 1000, this.moves);
      this.built = built;
    }
    this.plot.setScale("x", { min: shown.axis.begin / 1000, max: shown.axis.end / 1000 });
  }

  private data(): uPlot.AlignedData {
    const { times, lines } = this.shown!;
    const column = (values: readonly number[]) => times.map((_, i) => (Number.isFinite(values[i]) ? values[i]! : null));
    return [[...times], ...lines.flatMap(({ values, lows, highs }) =>
      [...(lows && highs ? [column(highs), column(lows)] : []), column(values)])] as uPlot.AlignedData;
  }

  private options(): uPlot.Options {
    const series: uPlot.Series[] = [{}], bands: uPlot.Band[] = [];
    for (const { label, lows, slot, dash } of this.shown!.lines) {
      const stroke = slot < 0 ? this.palette.heap : this.palette.area(slot);
      if (lows) {
        bands.push({ series: [series.length, series.length + 1], fill: `${stroke}38` });
        series.push({ label: "", width: 0, points: { show: false } }, { label: "", width: 0, points: { show: false } });
      }
      series.push({ label, stroke, width: 1.5, points: { show: false }, ...(dash ? { dash: [3, 3] } : {}) });
    }
    const common = { stroke: this.palette.text, font: "11px system-ui, sans-serif", ticks: { stroke: this.palette.grid, size: 4 },
      grid: { stroke: this.palette.grid, width: 1 } };
    return {
      width: this.width(), height: HEIGHT_PX, legend: { show: false }, padding: [6, SIDE_PX, 0, 0], series, bands,
      scales: { x: { time: true }, y: { range: (_u, min, max) => limits(min, max) } },
      axes: [{ ...common, size: AXIS_PX, space: 75, incrs: TICK_SECONDS, values: (_, splits, _axis, _space, step) => tickTimes(splits, step) },
        { ...common, ...(this.shown!.isBinary ? { incrs: BINARY } : {}), size: SIDE_PX, space: 26, values: (_, splits) => splits.map((value) => this.shown!.tick(value)) }],
      cursor: { sync: { key: "memprofd", scales: ["x", null] }, points: { show: false }, y: false,
        drag: { x: true, y: false, setScale: false, dist: 4 }, bind: { dblclick: () => null } },
      hooks: {
        drawClear: [(u) => drawRanges(u, this.shown!.marks, this.palette)],
        draw: [(u) => drawCursor(u, this.shown!.marks, this.palette)],
        setSelect: [(u) => brushed(u, this.moves)],
        setCursor: [(u) => this.onPoint(u.cursor.idx ?? null)],
      },
    };
  }

  private width(): number {
    return Math.max(200, this.element.clientWidth);
  }
  private fit(): void {
    if (this.plot && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: HEIGHT_PX });
  }
}

// Includes zero if it is near.
function limits(min: number, max: number): [number, number] {
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  const low = min > 0 && min < 0.7 * max ? 0 : min, high = max < 0 && max > 0.7 * min ? 0 : max;
  if (low === 0 && high === 0) return [0, 1];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low === 0 ? 0 : low - margin, high === 0 ? 0 : high + margin];
}
