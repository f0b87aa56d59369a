// SPDX-License-Identifier: Apache-2.0
// Draws a value as a graph of blocks: each block once, shared ones marked, the nearest at the left.
import type { GraphNode, Value } from "../lib/api";
import { button, draw, make } from "../lib/dom";
import { count } from "../lib/format";
import { nodeText, valueText } from "./value_text";

const BOX = { width: 190, height: 20, gapX: 60, gapY: 8 };
const LEAVES = 3; // fields without a block that a box lists

interface BoxPosition { x: number; y: number }

// Distance of each node from the first one; nodes are numbered from 1.
function depthsOf(nodes: readonly GraphNode[]): number[] {
  const depths = nodes.map(() => -1);
  let row = nodes.length > 0 ? [0] : [];
  for (let depth = 0; row.length > 0; ++depth) {
    for (const i of row) depths[i] = depth;
    const next = row.flatMap((i) => nodes[i]!.fields.map(({ node }) => node - 1));
    row = [...new Set(next)].filter((i) => i >= 0 && i < nodes.length && depths[i]! < 0);
  }
  return depths;
}

function positionsOf(nodes: readonly GraphNode[]): BoxPosition[] {
  const taken = new Map<number, number>();
  return depthsOf(nodes).map((depth) => {
    const row = taken.get(depth) ?? 0;
    taken.set(depth, row + 1);
    return { x: 8 + Math.max(0, depth) * (BOX.width + BOX.gapX), y: 8 + row * (BOX.height + BOX.gapY) };
  });
}

function boxText({ value, fields }: GraphNode): string {
  const leaves = fields.filter(({ node }) => node === 0).map((field) => (field.value ? valueText(field.value) : ".."));
  const shown = leaves.slice(0, LEAVES).join("; ") + (leaves.length > LEAVES ? "; .." : "");
  return (value ? nodeText(value) : "") + (shown === "" ? "" : `: ${shown}`);
}

// Draws an edge. One that leads back goes around below the boxes, dashed.
function edge(from: BoxPosition, to: BoxPosition, ends: string): SVGPathElement {
  const y1 = from.y + BOX.height / 2, y2 = to.y + BOX.height / 2, isBack = to.x <= from.x;
  const x1 = from.x + BOX.width, x2 = isBack ? to.x + BOX.width : to.x, bend = isBack ? 40 : BOX.gapX / 2;
  return draw("path", { class: isBack ? "edge back" : "edge", "data-ends": ends, fill: "none", "marker-end": "url(#value-arrow)",
    d: `M${x1} ${y1}C${x1 + bend} ${y1} ${isBack ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}` });
}

function drawing(nodes: readonly GraphNode[]): SVGSVGElement {
  const places = positionsOf(nodes);
  const width = Math.max(...places.map(({ x }) => x)) + BOX.width + 60, height = Math.max(...places.map(({ y }) => y)) + BOX.height + 8;
  const edges = nodes.flatMap((node, i) => node.fields.flatMap((field) => {
    const to = places[field.node - 1];
    return to ? [edge(places[i]!, to, `${i + 1} ${field.node}`)] : [];
  }));
  const boxes = nodes.map((node, i) => {
    const { x, y } = places[i]!, isShared = node.references > 1;
    const whole = boxText(node), text = whole.length > 30 ? `${whole.slice(0, 29)}…` : whole;
    return draw("g", { class: isShared ? "block shared" : "block", "data-node": i + 1 },
      draw("title", {}, isShared ? `${whole}; ${count(node.references)} fields hold it` : whole),
      draw("rect", { x, y, width: BOX.width, height: BOX.height, rx: 4 }), draw("text", { x: x + 6, y: y + 14 }, text));
  });
  const arrow = draw("marker", { id: "value-arrow", viewBox: "0 0 6 6", refX: 6, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" },
    draw("path", { d: "M0 0L6 3L0 6z" }));
  return draw("svg", { width, height, role: "img", "aria-label": "Graph of blocks" }, draw("defs", {}, arrow), ...edges, ...boxes);
}

export class GraphView {
  readonly element = make("section", { className: "value-graph", hidden: true, "aria-label": "A value as a graph" });

  waitFor(name: string): void {
    this.element.hidden = false;
    this.element.replaceChildren(make("p", { className: "muted" }, `Reading ${name} …`));
  }
  fail(message: string): void {
    this.element.replaceChildren(make("p", { className: "error" }, message));
  }

  show(name: string, value: Value): void {
    const nodes = value.graph, shared = nodes.filter(({ references }) => references > 1).length;
    const summary = nodes.length === 0 ? `${valueText(value)}: no blocks` : `${count(nodes.length)} block${nodes.length === 1 ? "" : "s"}` +
      `${value.graph_is_cut ? ", and more" : ""}; ${count(shared)} held by several`;
    const close = button("Close", () => { this.element.hidden = true; }, { className: "button small" });
    const body = make("div", { className: "graph-body" });
    if (nodes.length > 0) body.append(this.withPointing(drawing(nodes)));
    this.element.replaceChildren(make("div", { className: "graph-head" }, make("h3", {}, name), make("span", { className: "muted" }, summary),
      make("span", { className: "space" }), close), body);
  }

  // Highlights the edges of the block under the pointer.
  private withPointing(picture: SVGSVGElement): SVGSVGElement {
    picture.addEventListener("pointerover", (event) => {
      const node = (event.target as Element).closest("g.block")?.getAttribute("data-node") ?? "";
      for (const path of picture.querySelectorAll("path.edge")) {
        path.classList.toggle("pointed", node !== "" && path.getAttribute("data-ends")!.split(" ").includes(node));
      }
    });
    return picture;
  }
}
