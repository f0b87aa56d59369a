// SPDX-License-Identifier: Apache-2.0
// A chart as SVG with title, axes and legend, readable without the page.
import { clock, clockRange, zone } from "../lib/axis";
import { bytes, estimate } from "../lib/format";
import { isFlow, unitOf, type Measure } from "../lib/names";
import type { Palette } from "../lib/palette";
import type { Range } from "../lib/state";
import { xmlText } from "../lib/text";
import type { Area, Stack } from "./stack";

export interface Picture {
  stack: Stack;
  measure: Measure;
  title: string;
  axis: Range;
  palette: Palette;
}

const WIDTH = 1200, PLOT = { left: 84, top: 56, width: 760, height: 360 };
const LEGEND_X = PLOT.left + PLOT.width + 24, ROW = 20;
const TIME_TICKS = 6;

function text(x: number, y: number, content: string, style = ""): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${style}>${xmlText(content)}</text>`;
}

interface Scale {
  x(seconds: number): number;
  y(value: number): number;
  top: number;
}

function scaleOf({ stack, axis, measure }: Picture): Scale {
  const sums = stack.areas.at(-1)?.top ?? [];
  const heap = !isFlow(measure) ? stack.moments.map((moment) => moment.heap ?? 0) : [];
  const most = Math.max(1, ...sums, ...heap);
  const width = axis.end - axis.begin;
  return {
    x: (seconds) => PLOT.left + ((seconds * 1000 - axis.begin) / width) * PLOT.width,
    y: (value) => PLOT.top + PLOT.height * (1 - value / (most * 1.05)),
    top: most,
  };
}

function polygon(stack: Stack, index: number, scale: Scale, palette: Palette): string {
  const area = stack.areas[index]!, below = stack.areas[index - 1]?.top ?? [];
  const up = stack.times.map((time, i) => `${scale.x(time).toFixed(1)},${scale.y(area.top[i]!).toFixed(1)}`);
  const down = stack.times.map((time, i) => `${scale.x(time).toFixed(1)},${scale.y(below[i] ?? 0).toFixed(1)}`).reverse();
  return `<polygon points="${[...up, ...down].join(" ")}" fill="${palette.area(area.slot)}" fill-opacity="0.85"/>`;
}

function line(stack: Stack, values: (number | null)[], scale: Scale, style: string): string {
  const points = stack.times.flatMap((time, i) =>
    values[i] === null ? [] : [`${scale.x(time).toFixed(1)},${scale.y(values[i]!).toFixed(1)}`]);
  return `<polyline points="${points.join(" ")}" fill="none" ${style}/>`;
}

function axes(picture: Picture, scale: Scale): string[] {
  const { palette, axis, measure } = picture, out: string[] = [];
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(scale.top / 6)));
  for (let value = 0; value <= scale.top; value += step) {
    const y = scale.y(value);
    out.push(`<path d="M${PLOT.left} ${y.toFixed(1)}h${PLOT.width}" stroke="${palette.grid}"/>`,
      text(PLOT.left - 8, y + 4, bytes(value).replace(/\.0+ /, " ") + unitOf(measure),
        `text-anchor="end" fill="${palette.text}"`));
  }
  for (let i = 0; i <= TIME_TICKS; ++i) {
    const ms = axis.begin + ((axis.end - axis.begin) * i) / TIME_TICKS;
    out.push(text(scale.x(ms / 1000), PLOT.top + PLOT.height + 20, clock(ms), `text-anchor="middle" fill="${palette.text}"`));
  }
  return out;
}

function shortened(label: string): string {
  return label.length > 34 ? `…${label.slice(-33)}` : label;
}

function legend({ stack, palette, measure }: Picture): string[] {
  const last = stack.times.length - 1;
  const row = (area: Area, i: number) => {
    const y = PLOT.top + 10 + i * ROW * 1.9;
    return `<rect x="${LEGEND_X}" y="${y - 10}" width="12" height="12" rx="2" fill="${palette.area(area.slot)}"/>` +
      text(LEGEND_X + 20, y, shortened(area.label), `fill="${palette.heap}"`) +
      text(LEGEND_X + 20, y + 15, estimate(area.values[last] ?? 0, area.errors[last] ?? 0) + unitOf(measure),
        `fill="${palette.text}" font-size="11"`);
  };
  return [...stack.areas].reverse().map(row);
}

export function svgOf(picture: Picture): string {
  const { stack, palette, title, axis, measure } = picture, scale = scaleOf(picture);
  const height = Math.max(PLOT.top + PLOT.height + 44, PLOT.top + 24 + stack.areas.length * ROW * 1.9);
  const lines = isFlow(measure) ? [] : [
    line(stack, stack.moments.map((moment) => moment.heap), scale, `stroke="${palette.heap}" stroke-width="1.5"`),
    line(stack, stack.moments.map((moment) => moment.live), scale, `stroke="${palette.live}" stroke-dasharray="3 3"`)];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" ` +
      'font-family="system-ui, sans-serif" font-size="12">',
    `<title>${xmlText(title)}</title><rect width="100%" height="100%" fill="${palette.ground}"/>`,
    text(PLOT.left, 24, title, `font-size="16" font-weight="600" fill="${palette.heap}"`),
    text(PLOT.left, 42, `${clockRange(axis)} ${zone()}${lines.length > 0 ? "; lines: heap size, and all live memory (dashed)" : ""}; ` +
      "± is one standard error, numbers are those of the end", `fill="${palette.text}"`),
    `<clipPath id="plot"><rect x="${PLOT.left}" y="${PLOT.top}" width="${PLOT.width}" height="${PLOT.height}"/></clipPath>`,
    ...axes(picture, scale),
    '<g clip-path="url(#plot)">', ...stack.areas.map((_, i) => polygon(stack, i, scale, palette)), ...lines, "</g>",
    ...legend(picture), "</svg>"].join("\n");
}

// Renders an SVG as PNG, two pixels per unit.
export async function pngOf(svg: string): Promise<Blob> {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * 2;
    canvas.height = image.height * 2;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob)
      : fail(new Error("the browser cannot write a PNG of this size"))), "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
