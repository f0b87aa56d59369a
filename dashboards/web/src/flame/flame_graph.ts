// SPDX-License-Identifier: Apache-2.0
// A flame graph on a canvas. Draws one tree and reports the item under the pointer.
//
//   const graph = new FlameGraph(element, { onPoint, onZoom });
//   graph.show({ tree, colours, zoom: 0, upwards: true });
//
// element scrolls if the graph is taller; the canvas covers only the visible part.
import { Layout, type Rest } from "./layout";
import { Painter, ROW, type GraphView } from "./painter";

// The item under the pointer or selected: a frame, or the children of `of` that are too narrow to draw.
export type Item = { node: number } | { rest: Rest; of: number };
export interface WindowPoint {
  x: number;  // in the window
  y: number;
}
export interface Box extends WindowPoint {
  width: number;
  height: number;
}

export interface Handlers {
  onPoint?: (item: Item | null, place: WindowPoint) => void;  // null: no item
  onZoom?: (node: number) => void;  // requests a zoom; the owner decides
  onMenu?: (node: number, place: WindowPoint) => void;  // right button or menu key
}

interface Spot {
  depth: number;
  index: number;
  node: number;
}

const NOWHERE = { x: 0, y: 0 };

export class FlameGraph {
  readonly canvas = document.createElement("canvas");
  selected = -1;
  view: GraphView | null = null;
  layout: Layout | null = null;
  private readonly sheet = document.createElement("div");
  private readonly painter: Painter;
  private readonly resizes: ResizeObserver;
  private hovered = -1;
  private frame = 0;
  private scrolledTo = -1;  // position set by scrollToRow()
  private width = 0;
  private height = 0;

  constructor(readonly element: HTMLElement, private readonly handlers: Handlers = {}) {
    this.sheet.append(this.canvas);
    element.append(this.sheet);
    this.painter = new Painter(this.canvas.getContext("2d") as CanvasRenderingContext2D);
    this.resizes = new ResizeObserver(() => {
      if (this.width !== element.clientWidth || this.height !== element.clientHeight) this.redraw();
    });
    this.resizes.observe(element);
    this.listen();
  }

  destroy(): void {
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
    this.sheet.remove();
  }

  private listen(): void {
    const { canvas, element } = this;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "flame graph");
    canvas.addEventListener("mousemove", (event) => this.onMove(event));
    canvas.addEventListener("mouseleave", () => this.leave());
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("contextmenu", (event) => this.menu(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
    element.addEventListener("scroll", () => {
      if (element.scrollTop !== this.scrolledTo) this.point(null);
      this.soon();
    });
  }

  // Changes what is drawn; omitted fields keep their value. If the tree changes, the owner restores the selection.
  show(change: GraphView | Partial<GraphView>): void {
    const before = this.view;
    const view = { matches: null, ...before, ...change } as GraphView;
    this.view = view;
    if (view.tree !== before?.tree) this.selected = this.hovered = -1;
    this.redraw();
    const isElsewhere = view.zoom !== before?.zoom || view.upwards !== before.upwards ||
      view.tree.key !== before.tree.key || view.tree.inverted !== before.tree.inverted;
    if (isElsewhere) {
      this.scrollToRow(view.tree.depth[view.zoom], true);
      this.draw();
    }
  }

  // Lays out and draws synchronously.
  redraw(): void {
    if (this.view === null) return;
    this.width = this.element.clientWidth;
    this.layout = new Layout(this.view.tree, this.view.zoom, this.width);
    this.sheet.style.height = `${this.layout.rows.length * ROW}px`;
    // The scroll bar may have appeared or disappeared.
    if (this.width !== this.element.clientWidth) {
      this.width = this.element.clientWidth;
      this.layout = new Layout(this.view.tree, this.view.zoom, this.width);
    }
    this.height = this.element.clientHeight;
    if (this.layout.indexOf(this.selected) < 0) this.selected = -1;
    this.draw();
  }

  // ------------------------------------------------------------ positions

  // Distance of a row from the top of the sheet.
  private top(depth: number): number {
    return (this.view?.upwards ? (this.layout?.rows.length ?? 1) - 1 - depth : depth) * ROW;
  }
  private scrollToRow(depth: number, center: boolean): void {
    const top = this.top(depth);
    const { element, height } = this;
    if (top >= element.scrollTop && top + ROW <= element.scrollTop + height && !center) return;
    // Leave more room for the frames below the zoomed one than for its callers.
    const space = center ? (this.view?.upwards ? height - 3 * ROW : 2 * ROW) : height / 2;
    element.scrollTop = Math.max(0, top - space);
    this.scrolledTo = element.scrollTop;
  }
  private spotOf(event: MouseEvent): Spot | null {
    const { layout, view } = this;
    if (layout === null || view === null) return null;
    const box = this.canvas.getBoundingClientRect();
    const fromTop = Math.floor((event.clientY - box.top + this.element.scrollTop) / ROW);
    const depth = view.upwards ? layout.rows.length - 1 - fromTop : fromTop;
    const index = layout.indexAt(depth, event.clientX - box.left);
    return index < 0 ? null : { depth, index, node: layout.rows[depth].nodes[index] };
  }
  // Position of a frame in window coordinates, also if it is scrolled out of sight.
  boxAt(depth: number, index: number): Box {
    const row = this.layout?.rows[depth];
    const box = this.canvas.getBoundingClientRect();
    return { x: box.left + (row?.x[index] ?? 0), y: box.top + this.top(depth) - this.element.scrollTop,
      width: row?.w[index] ?? 0, height: ROW };
  }
  // Position of a node; null if it is not in the layout.
  boxOf(node: number): Box | null {
    const index = this.layout?.indexOf(node) ?? -1;
    return index < 0 || this.view === null ? null : this.boxAt(this.view.tree.depth[node], index);
  }

  // ------------------------------------------------------------ input

  private point(item: Item | null, place: WindowPoint = NOWHERE): void {
    this.handlers.onPoint?.(item, place);
  }
  private onMove(event: MouseEvent): void {
    const spot = this.spotOf(event);
    const at = { x: event.clientX, y: event.clientY };
    const isFrame = spot !== null && spot.node >= 0;
    this.canvas.style.cursor = isFrame ? "pointer" : "default";
    if (spot === null || this.layout === null) this.point(null);
    else if (isFrame) this.point({ node: spot.node }, at);
    else this.point({ rest: this.layout.restAt(spot.depth, spot.index), of: ~spot.node }, at);
    this.hover(isFrame ? spot.node : -1);
  }
  private leave(): void {
    this.point(null);
    this.hover(-1);
  }
  private hover(node: number): void {
    if (node === this.hovered) return;
    this.hovered = node;
    this.soon();
  }
  private click(event: MouseEvent): void {
    const spot = this.spotOf(event);
    if (spot === null || spot.node < 0) return;
    this.selected = spot.node;
    this.handlers.onZoom?.(spot.node);
  }
  private menu(event: MouseEvent): void {
    if (this.handlers.onMenu === undefined) return;
    const isByKey = event.button < 0 || (event.clientX === 0 && event.clientY === 0);
    const node = isByKey ? this.selected : (this.spotOf(event)?.node ?? -1);
    if (node <= 0) return;
    event.preventDefault();
    const box = this.boxOf(node);
    const place = isByKey && box ? { x: box.x + 12, y: box.y + ROW } : { x: event.clientX, y: event.clientY };
    this.handlers.onMenu(node, place);
  }

  select(node: number): void {
    if (this.view === null) return;
    this.selected = node;
    this.scrollToRow(this.view.tree.depth[node], false);
    this.draw();
    const box = this.boxOf(node);
    if (box) this.point({ node }, { x: box.x + Math.min(box.width / 2, 120), y: box.y + ROW });
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey || this.view === null) return;
    const node = this.selected < 0 ? this.view.zoom : this.selected;
    if (event.key === "Enter") return this.handlers.onZoom?.(node);
    const next = this.nextOf(event.key, node);
    if (next === null) return;
    event.preventDefault();
    if (next >= 0) this.select(next);
  }
  // The node that a key moves to; -1: none; null: the key does not move.
  private nextOf(key: string, node: number): number | null {
    const { tree, upwards } = this.view as GraphView;
    if (key === "Home") return 0;
    if (key === "ArrowLeft") return this.beside(node, -1);
    if (key === "ArrowRight") return this.beside(node, 1);
    if (key === (upwards ? "ArrowUp" : "ArrowDown")) return this.selected < 0 ? node : this.childOf(node);
    if (key === "ArrowUp" || key === "ArrowDown") return tree.parent[node];
    return null;
  }
  private rowOf(depth: number): number[] {
    return this.layout?.rows[depth]?.nodes ?? [];
  }
  private beside(node: number, step: number): number {
    const nodes = this.rowOf(this.view?.tree.depth[node] ?? 0);
    let i = nodes.indexOf(node) + step;
    while (i >= 0 && i < nodes.length && nodes[i] < 0) i += step;
    return nodes[i] ?? -1;
  }
  private childOf(node: number): number {
    const { tree } = this.view as GraphView;
    return this.rowOf(tree.depth[node] + 1).find((other) => other >= 0 && tree.parent[other] === node) ?? -1;
  }

  // ------------------------------------------------------------ drawing

  private soon(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { canvas, width, height, layout, view } = this;
    if (layout === null || view === null) return;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      [canvas.width, canvas.height] = [w, h];
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.painter.draw(view, layout, { width, height, ratio, scrolled: this.element.scrollTop });
    this.painter.outline(this.hovered, 1);
    this.painter.outline(this.selected, 2);
  }
}
