// SPDX-License-Identifier: Apache-2.0
// Histograms of lifetimes: logarithmic time axis, bytes upwards.
import type { Lifetime } from "../lib/api";
import { draw } from "../lib/dom";
import * as format from "../lib/format";

// Range of lifetimes in decades.
export interface Axis {
  from: number;  // log10 of seconds
  to: number;
}

const DEFAULT_AXIS: Axis = { from: -3, to: 2 };
// Width of memprofd's buckets: half a power of two.
const BUCKET_DECADES = Math.log10(2) / 2;

const WORD_BYTES = 8;

const boundOf = (bound: number | string): number => Number(bound);

// Range of all lifetimes in whole decades.
export function axisOf(lifetimes: Iterable<Lifetime | undefined>): Axis {
  let [from, to] = [Infinity, -Infinity];
  for (const lifetime of lifetimes) {
    for (const { upper_bound_seconds: bound } of lifetime?.buckets ?? []) {
      const log = Math.log10(boundOf(bound));
      if (!Number.isFinite(log)) continue;
      from = Math.min(from, log - BUCKET_DECADES);
      to = Math.max(to, log);
    }
  }
  if (from > to) return DEFAULT_AXIS;
  return { from: Math.floor(from), to: Math.max(Math.ceil(to), Math.floor(from) + 2) };
}

interface Bin {
  left: number;  // 0 to 1
  width: number;
  bytes: number;
  error: number;  // bytes
  upper: number;  // seconds
}

function binsOf(lifetime: Lifetime | undefined, { from, to }: Axis): Bin[] {
  return (lifetime?.buckets ?? []).map(({ upper_bound_seconds: bound, words, count }) => {
    const upper = boundOf(bound);
    const right = Number.isFinite(upper) ? (Math.log10(upper) - from) / (to - from) : 1;
    const width = BUCKET_DECADES / (to - from);
    const bytes = Number(words) * WORD_BYTES;
    return { left: Math.max(0, right - width), width, bytes, error: bytes / Math.sqrt(Number(count)), upper };
  });
}

// A small histogram for a table cell: one path, no text.
export function sparkline(lifetime: Lifetime | undefined, axis: Axis, width: number, height: number): SVGElement {
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "spark", "aria-hidden": "true" });
  const bins = binsOf(lifetime, axis);
  const most = Math.max(...bins.map(({ bytes }) => bytes), 1);
  const path = bins.map(({ left, width: part, bytes }) => {
    const tall = Math.max(1, (bytes / most) * height);
    return `M${(left * width).toFixed(1)} ${height}v${(-tall).toFixed(1)}h${(part * width).toFixed(1)}V${height}z`;
  }).join("");
  svg.append(draw("path", { d: path }));
  return svg;
}

const WIDTH = 460;
const HEIGHT = 150;
const BOTTOM = 20;
const LEFT = 66;

function addAxis(svg: SVGElement, { from, to }: Axis, place: (log: number) => number): void {
  const every = to - from > 8 ? 2 : 1;
  for (let decade = from; decade <= to; decade += every) {
    const x = place(decade);
    svg.append(draw("line", { x1: x, x2: x, y1: 0, y2: HEIGHT, class: "grid" }));
    const label = draw("text", { x, y: HEIGHT + 15, "text-anchor": decade === from ? "start" : decade === to ? "end" : "middle" });
    label.textContent = format.duration(10 ** decade).replace(".0", "");
    svg.append(label);
  }
}

// A histogram with axes. The relative error of a bar is one over the square root of its samples.
export function histogram(lifetime: Lifetime): SVGElement {
  const axis = axisOf([lifetime]);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH + LEFT} ${HEIGHT + BOTTOM}`, class: "histogram", role: "img" });
  svg.setAttribute("aria-label", `Lifetimes of ${format.count(Number(lifetime.samples))} samples that died`);
  const bins = binsOf(lifetime, axis);
  const most = Math.max(...bins.map(({ bytes, error }) => bytes + error), 1);
  const y = (bytes: number) => HEIGHT - (Math.max(0, bytes) / most) * (HEIGHT - 8);
  addAxis(svg, axis, (log) => LEFT + ((log - axis.from) / (axis.to - axis.from)) * WIDTH);
  for (const bin of bins) addBar(svg, bin, y);
  for (const part of [0, 0.5, 1]) {
    const label = draw("text", { x: LEFT - 6, y: y(part * most * 0.95) + 4, "text-anchor": "end" });
    label.textContent = format.bytes(part * most * 0.95);
    svg.append(label);
  }
  return svg;
}

function addBar(svg: SVGElement, bin: Bin, y: (bytes: number) => number): void {
  const left = LEFT + bin.left * WIDTH;
  const width = Math.max(1, bin.width * WIDTH - 1);
  const bar = draw("rect", { x: left, y: y(bin.bytes), width, height: HEIGHT - y(bin.bytes), class: "bar" });
  const title = draw("title", {});
  title.textContent = `up to ${Number.isFinite(bin.upper) ? format.duration(bin.upper) : "any time"}: ` +
    format.estimate(bin.bytes, bin.error);
  bar.append(title);
  const middle = left + width / 2;
  svg.append(bar, draw("line", { x1: middle, x2: middle, y1: y(bin.bytes - bin.error),
    y2: y(bin.bytes + bin.error), class: "whisker" }));
}
