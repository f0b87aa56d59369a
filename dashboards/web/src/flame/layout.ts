// SPDX-License-Identifier: Apache-2.0
// Computes the visible frames, row by row; row 0 holds the root.
//
// Above the zoomed node are only its callers, at full width; below it every child at least MIN_WIDTH wide, the
// largest first. Smaller ones are merged into one block at the end, the "rest" of their parent (stored as ~parent).
// The cost is proportional to the visible frames, not to the nodes of the tree.
import type { Tree } from "./call_tree";

const MIN_WIDTH = 0.5;  // pixels
const MAX_FRAMES = 400_000;

// Columns of one row; x is ascending.
export interface Row {
  nodes: number[];
  x: number[];
  w: number[];
}

// Frames too narrow to draw one by one.
export interface Rest {
  count: number;
  bytes: number;
}

export class Layout {
  readonly rows: Row[] = [];
  frames: number;
  cut = false;  // MAX_FRAMES reached: the deepest rows are missing

  constructor(readonly tree: Tree, readonly zoom: number, width: number) {
    for (let node = zoom; node >= 0; node = tree.parent[node]) {
      this.rows.push({ nodes: [node], x: [0], w: [width] });
    }
    this.rows.reverse();
    this.frames = this.rows.length;
    const scale = tree.total[zoom] > 0 ? width / tree.total[zoom] : 0;
    for (let row = this.rows[this.rows.length - 1]; row.nodes.length > 0;) {
      row = this.below(row, scale);
      if (row.nodes.length > 0) this.rows.push(row);
      this.frames += row.nodes.length;
      if (this.frames > MAX_FRAMES) {
        this.cut = true;
        break;
      }
    }
  }

  private below(row: Row, scale: number): Row {
    const { tree } = this;
    const next: Row = { nodes: [], x: [], w: [] };
    const add = (node: number, x: number, w: number) => {
      next.nodes.push(node);
      next.x.push(x);
      next.w.push(w);
    };
    for (let i = 0; i < row.nodes.length; ++i) {
      const node = row.nodes[i];
      if (node < 0) continue;
      tree.prepare(node);
      let x = row.x[i];
      let c = tree.childBegin[node];
      for (; c < tree.childEnd[node]; ++c) {
        const w = tree.total[tree.childList[c]] * scale;
        if (w < MIN_WIDTH) break;
        add(tree.childList[c], x, w);
        x += w;
      }
      const rest = c < tree.childEnd[node] ? this.restOf(node, c).bytes * scale : 0;
      if (rest >= MIN_WIDTH) add(~node, x, rest);
    }
    return next;
  }

  // Sum of the children of node from index `from` of the child list.
  private restOf(node: number, from: number): Rest {
    const { tree } = this;
    let bytes = 0;
    for (let c = from; c < tree.childEnd[node]; ++c) bytes += tree.total[tree.childList[c]];
    return { count: tree.childEnd[node] - from, bytes };
  }

  // The same for the rest block at a position.
  restAt(depth: number, index: number): Rest {
    const node = ~this.rows[depth].nodes[index];
    let shown = 0;
    for (const other of this.rows[depth].nodes) {
      if (other >= 0 && this.tree.parent[other] === node) ++shown;
    }
    return this.restOf(node, this.tree.childBegin[node] + shown);
  }

  // Index in row `depth` of the frame at x; -1: none.
  indexAt(depth: number, x: number): number {
    const row = this.rows[depth];
    if (row === undefined) return -1;
    let [low, high] = [0, row.x.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.x[middle] <= x) low = middle + 1;
      else high = middle;
    }
    const i = low - 1;
    return i >= 0 && x < row.x[i] + row.w[i] ? i : -1;
  }

  indexOf(node: number): number {
    return node >= 0 ? (this.rows[this.tree.depth[node]]?.nodes.indexOf(node) ?? -1) : -1;
  }
}
