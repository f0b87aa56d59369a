// SPDX-License-Identifier: Apache-2.0
// Marks on a chart besides its areas: ranges below them, collections in a lane under zero, and the cursor above them.
import type uPlot from "uplot";
import type { Palette } from "../lib/palette";
import type { Phase, Range } from "../lib/state";
import type { Stack } from "./stack";

export interface Marks {
  chosen?: Range | undefined; // the counted range, unless it is everything
  base?: Range | undefined; // the range to compare with
  cursor?: number | undefined; // set unless live; later times are veiled
  phases?: readonly Phase[]; // phases of the program
  pauses?: readonly { time: number; name: string }[]; // pause points of the program
}

export const LANE = 0.09; // share of the height, below zero
const DENSE_PX = 4; // cycles closer than this are drawn as one bar

const xOf = (u: uPlot, ms: number) => u.valToPos(ms / 1000, "x", true);

function drawRange(u: uPlot, range: Range, colour: string): void {
  const { left, top, width, height } = u.bbox;
  const from = Math.max(left, xOf(u, range.begin)), to = Math.min(left + width, xOf(u, range.end));
  if (to < left || from > left + width) return;
  u.ctx.fillStyle = `${colour}22`;
  u.ctx.fillRect(from, top, Math.max(1, to - from), height);
  u.ctx.fillStyle = colour;
  for (const x of [from, to]) u.ctx.fillRect(Math.round(x) - 0.5, top, 1, height);
}

// Colour slot of a name, the same on every chart.
function slotOf(name: string): number {
  let sum = 0;
  for (const unit of name) sum = (31 * sum + unit.codePointAt(0)!) % 9973;
  return sum;
}

const PHASE_PX = 4; // height of the bar at the top
const NAME_PX = 30; // narrower bars have no room for their name

// Draws a bar at the top with the phase's name, and a background below it.
export function drawPhases(u: uPlot, marks: Marks, palette: Palette): void {
  const { left, top, width, height } = u.bbox, { ctx } = u, dpr = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const { name, begin, end } of marks.phases ?? []) {
    const from = Math.max(left, xOf(u, begin)), to = Math.min(left + width, end === undefined ? left + width : xOf(u, end));
    if (to < left || from > left + width) continue;
    ctx.fillStyle = `${palette.area(slotOf(name))}1c`;
    ctx.fillRect(from, top, Math.max(1, to - from), height);
    ctx.fillStyle = palette.area(slotOf(name));
    ctx.fillRect(from, top, Math.max(1, to - from), PHASE_PX * dpr);
    if (to - from < NAME_PX * dpr) continue;
    ctx.font = `${11 * dpr}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    ctx.fillText(name, from + 3 * dpr, top + (PHASE_PX + 2) * dpr, to - from - 6 * dpr);
  }
  ctx.restore();
  for (const { time } of marks.pauses ?? []) {
    const x = xOf(u, time);
    if (x >= left && x <= left + width) drawLine(u, x, palette.chosen);
  }
}

export function drawRanges(u: uPlot, marks: Marks, palette: Palette): void {
  drawPhases(u, marks, palette);
  if (marks.base) drawRange(u, marks.base, palette.base);
  if (marks.chosen) drawRange(u, marks.chosen, palette.chosen);
}

// Indexes of the points within the plot, and of one before them.
function visible(u: uPlot, stack: Stack): { from: number; to: number } {
  const { min, max } = u.scales["x"]!;
  let from = stack.times.findIndex((time) => time >= (min ?? 0));
  if (from < 0) from = stack.times.length;
  let to = from;
  while (to < stack.times.length && stack.times[to]! <= (max ?? Infinity)) ++to;
  return { from, to };
}

// Bars: minor collections per second. Ticks: major cycles. Full-height lines: compactions and restarts of sampling.
export function drawCollections(u: uPlot, stack: Stack, palette: Palette): void {
  const { ctx } = u, { from, to } = visible(u, stack);
  const zero = u.valToPos(0, "y", true), bottom = u.bbox.top + u.bbox.height;
  const lane = bottom - zero - 2;
  if (lane < 4 || from >= to) return;
  let most = 0;
  for (let i = from; i < to; ++i) most = Math.max(most, stack.moments[i]!.minor / stack.moments[i]!.seconds);
  for (let i = Math.max(1, from); i < to; ++i) {
    const moment = stack.moments[i]!;
    const left = Math.max(u.bbox.left, u.valToPos(stack.times[i - 1]!, "x", true));
    const right = u.valToPos(stack.times[i]!, "x", true), width = right - left;
    if (most > 0 && moment.minor > 0) {
      const height = (moment.minor / moment.seconds / most) * lane;
      ctx.fillStyle = palette.minor;
      ctx.fillRect(left, bottom - height, Math.max(1, width - (width > 3 ? 1 : 0)), height);
    }
    drawMajor(u, moment.major, right, width, bottom, lane, palette);
    if (moment.compactions > 0) drawLine(u, right, palette.compaction);
    if (moment.anew) drawLine(u, right, palette.anew);
  }
}

function drawMajor(u: uPlot, cycles: number, x: number, width: number, bottom: number, lane: number, palette: Palette): void {
  if (cycles === 0) return;
  u.ctx.fillStyle = palette.major;
  const shown = Math.min(cycles, Math.max(1, Math.floor(width / DENSE_PX)));
  for (let i = 0; i < shown; ++i) {
    u.ctx.fillRect(Math.round(x - (width * (i + 0.5)) / shown) - 1, bottom - lane, 2, lane);
  }
}

function drawLine(u: uPlot, x: number, colour: string): void {
  const { ctx } = u, { top, height } = u.bbox;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([4, 3]);
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, top + height);
  ctx.stroke();
  ctx.restore();
}

export function drawCursor(u: uPlot, marks: Marks, palette: Palette): void {
  if (marks.cursor === undefined) return;
  const { left, top, width, height } = u.bbox, { ctx } = u;
  const x = Math.max(left, xOf(u, marks.cursor));
  if (x > left + width) return;
  ctx.fillStyle = `${palette.ground}b0`;
  ctx.fillRect(x, top, left + width - x, height);
  ctx.fillStyle = palette.chosen;
  ctx.fillRect(Math.round(x) - 1, top, 2, height);
}
