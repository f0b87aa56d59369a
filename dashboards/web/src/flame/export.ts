// SPDX-License-Identifier: Apache-2.0
// Exports the graph as a picture or text, with all rows of the layout, also those scrolled out of sight.
import { xmlText } from "../lib/text";
import { labelOf } from "./call_tree";
import { css, FADED } from "./colours";
import { Layout } from "./layout";
import { colourOf, FONT, FONT_FAMILY, Labels, looksOf, MIN_LABEL, Painter, ROW, type GraphView } from "./painter";

const MAX_PNG_ROWS = 800;  // canvases have a size limit
const PADDING = 10;
const TITLE = 24;

// Lines above the graph.
export interface Caption {
  title: string;
  subtitle: string;
}

function svgFrame(view: GraphView, layout: Layout, labels: Labels, depth: number, i: number): string {
  const row = layout.rows[depth];
  const node = row.nodes[i];
  const { tree, colours } = view;
  const { isMatch, isFaded } = looksOf(view, node, depth);
  const y = (view.upwards ? layout.rows.length - 1 - depth : depth) * ROW;
  const name = node < 0 ? "smaller frames" : labelOf(tree, node);
  const place = node < 0 ? "" : tree.profile.location(tree.fn[node]);
  const title = [name, place, node < 0 ? "" : `${Math.round(tree.total[node])} bytes, ` +
    `${Math.round(tree.samples[node])} samples`].filter(Boolean).join("\n");
  const text = row.w[i] < MIN_LABEL ? "" : node < 0 ? "…" : labels.fitted(tree, node, row.w[i] - 10);
  const width = Math.max(row.w[i] - (row.w[i] > 3 ? 0.8 : 0), 0.1);
  const fill = css(colourOf(view, node, isMatch));
  const ink = isMatch ? colours.theme.matchText : colours.theme.text;
  return `<g${isFaded ? ` opacity="${(FADED / 255).toFixed(2)}"` : ""}><title>${xmlText(title)}</title>` +
    `<rect x="${row.x[i].toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${ROW - 1}" fill="${fill}"/>` +
    (text === "" ? "" : `<text x="${(row.x[i] + 5).toFixed(2)}" y="${y + 14}" fill="${ink}">${xmlText(text)}</text>`) +
    "</g>";
}

export function toSvg(view: GraphView, width: number, caption: Caption): Blob {
  const layout = new Layout(view.tree, view.zoom, width);
  const context = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  context.font = FONT;
  const labels = new Labels(context);
  const { theme } = view.colours;
  const top = 2 * TITLE + PADDING;
  const height = top + layout.rows.length * ROW + PADDING;
  const parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width + 2 * PADDING}" height="${height}" ` +
    `font-family="${xmlText(FONT_FAMILY)}" font-size="12">`,
    `<rect width="100%" height="100%" fill="${theme.ground}"/>`,
    `<text x="${PADDING}" y="${TITLE}" font-size="16" font-weight="600" fill="${theme.text}">${xmlText(caption.title)}</text>`,
    `<text x="${PADDING}" y="${2 * TITLE - 4}" fill="${theme.text}" opacity="0.75">${xmlText(caption.subtitle)}</text>`,
    `<g transform="translate(${PADDING} ${top})">`];
  layout.rows.forEach((row, depth) => {
    for (let i = 0; i < row.nodes.length; ++i) parts.push(svgFrame(view, layout, labels, depth, i));
  });
  parts.push("</g></svg>\n");
  return new Blob([parts.join("\n")], { type: "image/svg+xml" });
}

export function toPng(view: GraphView, width: number, caption: Caption): Promise<Blob> {
  const layout = new Layout(view.tree, view.zoom, width);
  const rows = Math.min(layout.rows.length, MAX_PNG_ROWS);
  const ratio = Math.min(2, 16_000 / (rows * ROW));
  const graph = document.createElement("canvas");
  [graph.width, graph.height] = [Math.round(width * ratio), Math.round(rows * ROW * ratio)];
  const scrolled = view.upwards ? (layout.rows.length - rows) * ROW : 0;
  new Painter(graph.getContext("2d") as CanvasRenderingContext2D)
    .draw(view, layout, { width, height: rows * ROW, ratio, scrolled });
  return framed(graph, ratio, view, caption);
}

// Adds the caption above the graph.
function framed(graph: HTMLCanvasElement, ratio: number, view: GraphView, caption: Caption): Promise<Blob> {
  const { theme } = view.colours;
  const sheet = document.createElement("canvas");
  const top = (2 * TITLE + PADDING) * ratio;
  sheet.width = graph.width + 2 * PADDING * ratio;
  sheet.height = graph.height + top + PADDING * ratio;
  const context = sheet.getContext("2d") as CanvasRenderingContext2D;
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.drawImage(graph, PADDING * ratio, top);
  context.scale(ratio, ratio);
  context.fillStyle = theme.text;
  context.font = `600 16px ${FONT_FAMILY}`;
  context.fillText(caption.title, PADDING, TITLE);
  context.font = FONT;
  context.globalAlpha = 0.75;
  context.fillText(caption.subtitle, PADDING, 2 * TITLE - 4);
  return new Promise((done, fail) => sheet.toBlob((blob) =>
    (blob ? done(blob) : fail(new Error("the picture is too large for this browser"))), "image/png"));
}

// "outer;...;inner bytes", one line per callstack below the zoomed frame that has some of the measure; "... before
// after" for a difference.
export function toCollapsed(view: GraphView): Blob {
  const { tree, zoom } = view;
  const lines: string[] = [];
  const open = [zoom];
  while (open.length > 0) {
    const node = open.pop() as number;
    tree.prepare(node);
    for (let c = tree.childEnd[node] - 1; c >= tree.childBegin[node]; --c) open.push(tree.childList[c]);
    const own = ownOf(view, node);
    if (own !== "") lines.push(`${stackOf(view, node)} ${own}\n`);
  }
  return new Blob(lines, { type: "text/plain" });
}

function ownOf({ tree }: GraphView, node: number): string {
  if (!(tree.self[node] > 0) || node === 0) return "";
  const sides = tree.profile.sides?.[tree.key];
  if (sides === undefined || tree.inverted) return String(Math.round(tree.self[node]));
  return `${Math.round(sides.before[node])} ${Math.round(sides.after[node])}`;
}

function stackOf({ tree }: GraphView, node: number): string {
  const names: string[] = [];
  for (let at = node; at > 0; at = tree.parent[at]) {
    names.push(tree.profile.name(tree.fn[at]).replace(/[;\n\r]/g, "_"));
  }
  return (tree.inverted ? names : names.reverse()).join(";");
}
