// SPDX-License-Identifier: Apache-2.0
// Draws the visible part of a layout on a canvas.
import { timesOf, type Tree } from "./call_tree";
import { faded, type Colours } from "./colours";
import type { Layout, Row } from "./layout";

export const ROW = 20;  // CSS pixels
export const FONT_FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
export const FONT = `12px ${FONT_FAMILY}`;
export const MIN_LABEL = 26;

// Data and display settings of a graph.
export interface GraphView {
  tree: Tree;
  colours: Colours;
  zoom: number;
  upwards: boolean;  // the root is at the bottom
  matches: Uint8Array | null;  // by function, 1 if the search matches; null: no search
}

// The visible part of the sheet in CSS pixels; ratio is canvas pixels per CSS pixel.
export interface Sight {
  width: number;
  height: number;
  ratio: number;
  scrolled: number;
}

// Whether a frame is a search match, and whether it is drawn faded.
export function looksOf(view: GraphView, node: number, depth: number): { isMatch: boolean; isFaded: boolean } {
  const { tree, matches, zoom } = view;
  const isMatch = node > 0 && matches !== null && matches[tree.fn[node]] === 1;
  return { isMatch, isFaded: depth < tree.depth[zoom] || (matches !== null && !isMatch) };
}

export function colourOf(view: GraphView, node: number, isMatch: boolean): number {
  const { theme } = view.colours;
  return node < 0 ? theme.rest : isMatch ? theme.match : view.colours.of(view.tree, node);
}

// Widths of names in FONT, measured once.
export class Labels {
  private readonly widths = new Map<string, number>();
  constructor(private readonly context: CanvasRenderingContext2D) {}

  private widthOf(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // The name shortened to fit: without its module, then truncated. The frame count stays while part of the name fits.
  fitted(tree: Tree, node: number, space: number): string {
    const fn = tree.fn[node], name = tree.profile.name(fn), frames = tree.frames?.[node] ?? 1;
    const times = frames > 1 ? ` ${timesOf(frames)}` : "", left = space - (times === "" ? 0 : this.widthOf(times));
    if (this.widthOf(name) <= left) return name + times;
    const module = tree.profile.module(fn);
    const short = module === "" ? name : name.slice(module.length + 1);
    const width = this.widthOf(short);
    if (width <= left) return short + times;
    const cut = (room: number): string => {
      const letters = Math.floor((room - 10) / (width / short.length));
      return letters < 2 ? "" : `${short.slice(0, letters)}…`;
    };
    const withTimes = cut(left);
    return withTimes === "" ? cut(space) : withTimes + times;
  }
}

export class Painter {
  private readonly labels: Labels;
  private image: ImageData | null = null;
  // The last drawn frame.
  private view: GraphView | null = null;
  private layout: Layout | null = null;
  private scrolled = 0;

  constructor(private readonly context: CanvasRenderingContext2D) {
    context.font = FONT;
    this.labels = new Labels(context);
  }

  draw(view: GraphView, layout: Layout, seen: Sight): void {
    const { context } = this;
    [this.view, this.layout, this.scrolled] = [view, layout, seen.scrolled];
    context.setTransform(seen.ratio, 0, 0, seen.ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = "middle";
    const rows: [Row, number, number][] = [];
    for (let depth = 0; depth < layout.rows.length; ++depth) {
      const y = this.top(depth);
      if (y > -ROW && y < seen.height) rows.push([layout.rows[depth], depth, y]);
    }
    this.paint(view, rows, seen.ratio);
    for (const [row, depth, y] of rows) this.drawLabels(view, row, depth, y);
  }

  private top(depth: number): number {
    const rows = this.layout?.rows.length ?? 1;
    return (this.view?.upwards ? rows - 1 - depth : depth) * ROW - this.scrolled;
  }

  // Draws frames pixel by pixel, so that the time depends little on their number.
  private paint(view: GraphView, rows: [Row, number, number][], ratio: number): void {
    const { width, height } = this.context.canvas;
    if (width === 0 || height === 0) return;
    if (this.image?.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
    }
    const pixels = new Uint32Array(this.image.data.buffer).fill(0);
    const line = new Uint32Array(width);
    for (const [row, depth, y] of rows) {
      this.paintLine(view, line.fill(0), row, depth, ratio);
      const bottom = Math.min(height, Math.round((y + ROW - 1) * ratio));
      for (let at = Math.max(0, Math.round(y * ratio)); at < bottom; ++at) {
        pixels.set(line, at * width);
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  // Draws one line of pixels of a row. If frames share a pixel, it shows the first, which is the largest.
  private paintLine(view: GraphView, line: Uint32Array, row: Row, depth: number, ratio: number): void {
    const { tree, matches, zoom } = view;
    const isAbove = depth < tree.depth[zoom];
    let done = 0;
    for (let i = 0; i < row.nodes.length; ++i) {
      const node = row.nodes[i];
      const left = Math.max(Math.round(row.x[i] * ratio), done);
      const right = Math.round((row.x[i] + row.w[i]) * ratio);
      if (right <= left) continue;
      done = right;
      // Same as looksOf(), which would allocate an object for each frame.
      const isMatch = node > 0 && matches !== null && matches[tree.fn[node]] === 1;
      const isFaded = isAbove || (matches !== null && !isMatch);
      const colour = colourOf(view, node, isMatch);
      line.fill(isFaded ? faded(colour) : colour, left, right - left > 3 ? right - 1 : right);
    }
  }

  private drawLabels(view: GraphView, row: Row, depth: number, y: number): void {
    const { context } = this;
    const { tree, colours } = view;
    for (let i = 0; i < row.nodes.length; ++i) {
      if (row.w[i] < MIN_LABEL) continue;
      const node = row.nodes[i];
      const text = node < 0 ? "…" : this.labels.fitted(tree, node, row.w[i] - 10);
      if (text === "") continue;
      const { isMatch, isFaded } = looksOf(view, node, depth);
      context.globalAlpha = isFaded ? 0.7 : 1;
      context.fillStyle = isMatch ? colours.theme.matchText : colours.theme.text;
      context.fillText(text, row.x[i] + 5, y + ROW / 2);
    }
    context.globalAlpha = 1;
  }

  // Outlines a node if it is drawn.
  outline(node: number, thickness: number): void {
    const { view, layout, context } = this;
    const index = layout?.indexOf(node) ?? -1;
    if (index < 0 || view === null || layout === null) return;
    const depth = view.tree.depth[node];
    const row = layout.rows[depth];
    const inset = thickness / 2;
    context.strokeStyle = view.colours.theme.outline;
    context.lineWidth = thickness;
    context.strokeRect(row.x[index] + inset, this.top(depth) + inset,
      Math.max(row.w[index] - 0.75 - thickness, 1), ROW - 1 - thickness);
  }
}
