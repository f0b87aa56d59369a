// SPDX-License-Identifier: Apache-2.0
// Stacked areas with lines over them, drawn by uPlot.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { TICK_SECONDS, tickTimes } from "../lib/axis";
import { bytes } from "../lib/format";
import { isFlow, measureLabel, unitOf, type Measure } from "../lib/names";
import { paletteOf, type Palette } from "../lib/palette";
import type { Range } from "../lib/state";
import { drawCollections, drawCursor, drawRanges, LANE, type Marks } from "./marks";
import { listenToMoves, type Moves } from "./moves";
import { areaAt, totalAt, type Area, type Stack } from "./stack";

export interface AreaChartEvents extends Moves {
  onArea(area: Area): void; // clicked
  onPoint(index: number | null, area: Area | null): void;
}

// The lines over the areas: size of the heap and live memory, or resident and swapped memory.
export type Lines = "heap" | "resident" | "none";

export interface Shown {
  stack: Stack;
  measure: Measure;
  axis: Range;
  marks: Marks;
  dark: boolean;
  lines: Lines;
  height: number;
}

// The heap line gets an axis of its own if the areas would be too flat on a shared one. The live line shares the axis
// of the areas, which are its parts, unless a filter leaves them too flat.
const FLAT = 3;
export const BINARY = Array.from({ length: 52 }, (_, power) => 2 ** power);
// Width of the sides of every chart, so that times line up. NAME_PX is the share of an axis name.
export const SIDE_PX = 82;
const NAME_PX = 15;
const NARROW_PX = 480; // narrower charts have no empty side
const HALF_TIME_PX = 26; // half the width of the last tick's text, which is centred on the edge
const CLICK_PX = 4;
// Names of the dashed and the full line.
const LABELS: Record<Lines, [string, string]> = { heap: ["live", "heap"], resident: ["swapped", "resident"], none: ["", ""] };

export class AreaChart {
  private plot: uPlot | null = null;
  private built = ""; // structure for which the plot was made
  private shown: Shown | null = null;
  private palette: Palette = paletteOf(false);
  private readonly resized = new ResizeObserver(() => this.fit());
  private pressed: { x: number; y: number } | null = null;

  constructor(private readonly container: HTMLElement, private readonly events: AreaChartEvents) {
    this.resized.observe(container);
  }

  destroy(): void {
    this.resized.disconnect();
    this.plot?.destroy();
  }

  show(shown: Shown): void {
    this.shown = shown;
    this.palette = paletteOf(shown.dark);
    const built = this.structure();
    if (this.plot && built === this.built) {
      this.plot.setData(this.data(), false);
    } else {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), this.data(), this.container);
      this.listen(this.plot.over);
      this.built = built;
    }
    this.setAxis(shown.axis, true);
  }

  // Changes the axis without new data. Redraws only if the axis changed or isNew.
  setAxis(axis: Range, isNew = false): void {
    if (!this.shown || !this.plot) return;
    const { begin, end } = this.shown.axis;
    if (!isNew && axis.begin === begin && axis.end === end) return;
    this.shown.axis = axis;
    this.plot.setScale("x", { min: axis.begin / 1000, max: axis.end / 1000 });
  }
  setMarks(marks: Marks): void {
    if (!this.shown || !this.plot) return;
    if (JSON.stringify(marks) === JSON.stringify(this.shown.marks)) return;
    this.shown.marks = marks;
    this.plot.redraw(false);
  }

  // Centre of an area at a point of the data, in window coordinates.
  placeOf(area: Area, index: number): { x: number; y: number } | null {
    const { stack } = this.shown ?? {};
    if (!this.plot || !stack) return null;
    const box = this.plot.over.getBoundingClientRect();
    const middle = area.top[index]! - area.values[index]! / 2;
    return { x: box.x + this.plot.valToPos(stack.times[index]!, "x"), y: box.y + this.plot.valToPos(middle, "y") };
  }

  // Lines that use the right axis, which exists only for them.
  private get onTheRight(): { live: boolean; heap: boolean } {
    const { stack, measure, lines } = this.shown!;
    return lines === "heap" ? rightAxis(stack, measure) : { live: false, heap: false };
  }

  private structure(): string {
    const { stack, measure, dark, lines, height } = this.shown!;
    return JSON.stringify([stack.areas.map(({ key, slot }) => [key, slot]), measure, dark, lines, height,
      this.onTheRight]);
  }

  private data(): uPlot.AlignedData {
    const { stack, lines } = this.shown!;
    const columns: (number | null)[][] = stack.areas.map((area) => area.top);
    if (lines === "heap") columns.push(stack.moments.map(({ live }) => live), stack.moments.map(({ heap }) => heap));
    if (lines === "resident") {
      const of = (field: "resident_bytes" | "swapped_bytes") => stack.moments.map(({ memory }) => memory && Number(memory[field]));
      columns.push(of("swapped_bytes"), of("resident_bytes"));
    }
    return [stack.times, ...columns] as uPlot.AlignedData;
  }

  private series(): uPlot.Series[] {
    const { stack, measure, lines } = this.shown!;
    const step = uPlot.paths.stepped!({ align: -1 });
    const paths = isFlow(measure) ? step : undefined;
    const out: uPlot.Series[] = [{}];
    for (const area of stack.areas) {
      const colour = this.palette.area(area.slot);
      out.push({ label: area.label, scale: "y", stroke: colour, width: 1, fill: `${colour}c8`,
        points: { show: false }, ...(paths ? { paths } : {}) });
    }
    const right = this.onTheRight, [dashed, full] = LABELS[lines];
    if (lines !== "none") {
      out.push({ label: dashed, scale: right.live ? "heap" : "y", stroke: this.palette.live, width: 1.25, dash: [3, 3], points: { show: false } });
      out.push({ label: full, scale: right.heap ? "heap" : "y", stroke: this.palette.heap, width: 1.5, points: { show: false }, ...(lines === "heap" ? { paths: step } : {}) });
    }
    return out;
  }

  private options(): uPlot.Options {
    const { stack, height } = this.shown!;
    const own = this.onTheRight.heap;
    return {
      width: this.width(), height, legend: { show: false }, padding: [10, own ? 0 : this.width() < NARROW_PX ? HALF_TIME_PX : SIDE_PX, 0, 0],
      series: this.series(),
      bands: stack.areas.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number] })),
      scales: { x: { time: true }, y: { range: aboveZero }, heap: { range: aboveZero } },
      axes: [this.axis("x"), this.axis("y"), ...(own ? [this.axis("heap")] : [])],
      cursor: { sync: { key: "memprofd", scales: ["x", null] }, points: { show: false },
        drag: { x: true, y: false, setScale: false, dist: CLICK_PX }, y: false, bind: { dblclick: () => null } },
      hooks: {
        drawClear: [(u) => drawRanges(u, this.shown!.marks, this.palette)],
        draw: [(u) => {
          drawCollections(u, this.shown!.stack, this.palette);
          drawCursor(u, this.shown!.marks, this.palette);
        }],
        setSelect: [(u) => brushed(u, this.events)],
        setCursor: [(u) => this.point(u)],
      },
    };
  }

  private axis(scale: "x" | "y" | "heap"): uPlot.Axis {
    const common = { scale, stroke: this.palette.text, font: "11px system-ui, sans-serif",
      ticks: { stroke: this.palette.grid, size: 4 } };
    if (scale === "x") {
      return { ...common, grid: { stroke: this.palette.grid, width: 1 }, size: 28, space: 75, incrs: TICK_SECONDS,
        values: (_, splits, _axis, _space, step) => tickTimes(splits, step) };
    }
    const perSecond = scale === "y" ? unitOf(this.shown!.measure) : "";
    const name = this.nameOfAxis(scale);
    return { ...common, side: scale === "heap" ? 1 : 3, size: SIDE_PX - (name === "" ? 0 : NAME_PX), incrs: BINARY, space: 34,
      ...(name === "" ? {} : { label: name, labelSize: NAME_PX, labelGap: 0, labelFont: common.font }),
      grid: { show: scale === "y", stroke: this.palette.grid, width: 1 },
      filter: (_, splits) => splits.map((value) => (value < 0 ? null : value)),
      values: (_, splits) => splits.map((value) => (value === null ? "" : tick(value) + perSecond)) };
  }

  // "" if there is only one axis.
  private nameOfAxis(scale: "y" | "heap"): string {
    const right = this.onTheRight, { measure } = this.shown!;
    if (!right.heap) return "";
    if (scale === "heap") return right.live ? "heap, all that is live" : "heap";
    return `areas: ${measureLabel(measure).toLowerCase()}`;
  }

  private width(): number {
    return Math.max(200, this.container.clientWidth);
  }
  private fit(): void {
    if (this.plot && this.shown && this.plot.width !== this.width()) {
      this.plot.setSize({ width: this.width(), height: this.shown.height });
    }
  }

  // ------------------------------------------------------------ pointer

  private listen(over: HTMLElement): void {
    over.addEventListener("mousedown", (event) => { this.pressed = { x: event.clientX, y: event.clientY }; });
    over.addEventListener("click", (event) => this.clicked(event));
    over.addEventListener("mouseleave", () => this.events.onPoint(null, null));
    listenToMoves(over, (x) => this.plot!.posToVal(x, "x") * 1000, this.events);
  }

  private clicked(event: MouseEvent): void {
    const from = this.pressed;
    this.pressed = null;
    if (!from || Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y) > CLICK_PX) return;
    const area = this.under(this.plot!);
    if (area) this.events.onArea(area);
  }

  private under(u: uPlot): Area | null {
    const index = u.cursor.idx, top = u.cursor.top;
    if (index === null || index === undefined || top === undefined || top < 0) return null;
    return areaAt(this.shown!.stack, index, u.posToVal(top, "y"));
  }

  private point(u: uPlot): void {
    const index = u.cursor.idx ?? null;
    // A synced cursor has no height in this chart.
    const isMine = u.over.matches(":hover");
    const area = isMine ? this.under(u) : null;
    u.over.style.cursor = area?.site ? "pointer" : "crosshair";
    this.events.onPoint(index, area);
  }

}

export function rightAxis(stack: Stack, measure: Measure): { live: boolean; heap: boolean } {
  if (isFlow(measure)) return { live: true, heap: true };
  let most = 0, heap = 0, live = 0;
  stack.moments.forEach((moment, i) => {
    most = Math.max(most, totalAt(stack, i).value);
    heap = Math.max(heap, moment.heap ?? 0);
    live = Math.max(live, moment.live);
  });
  return { live: live > FLAT * most, heap: Math.max(heap, live) > FLAT * most };
}

// Reports the range that was dragged over, and clears the selection.
export function brushed(u: uPlot, events: Moves): void {
  const { left, width } = u.select;
  if (width < CLICK_PX) return;
  const range = { begin: u.posToVal(left, "x") * 1000, end: u.posToVal(left + width, "x") * 1000 };
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  events.onBrush(range);
}

// Range from below zero, for the lane of marks, to the largest visible value, including the step that ends beyond the
// axis.
function aboveZero(u: uPlot, _min: number, _max: number, scale: string): [number, number] {
  const [first, last] = u.series[0]!.idxs ?? [0, u.data[0].length - 1];
  let most = 0;
  u.series.forEach((series, i) => {
    if (i === 0 || series.scale !== scale) return;
    for (let at = Math.max(0, first - 1); at <= last + 1; ++at) most = Math.max(most, u.data[i]![at] ?? 0);
  });
  const top = most > 0 ? most * 1.06 : 1;
  return [-top * LANE, top];
}

// "64 MiB": ticks at powers of two need few decimals.
function tick(value: number): string {
  return bytes(value).replace(/\.0+ /, " ");
}
