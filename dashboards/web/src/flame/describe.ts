// SPDX-License-Identifier: Apache-2.0
// Describes the content of a graph for scripts and tests.
import { labelOf } from "./call_tree";
import { changeOf } from "./colours";
import type { Box, FlameGraph } from "./flame_graph";

// null if nothing is drawn.
export function describeFrame(graph: FlameGraph, node: number, box: Box | null = graph.boxOf(node)) {
  if (graph.view === null) return null;
  const { tree, matches } = graph.view;
  const { profile } = tree;
  return { node, name: profile.name(tree.fn[node]), location: profile.location(tree.fn[node]),
    depth: tree.depth[node], total: tree.total[node], self: tree.self[node],
    samples: tree.samples[node], selfSamples: tree.selfSamples[node], lifetime: tree.lifetime(node),
    error: Math.sqrt(tree.variance[node]), frames: tree.frames?.[node] ?? 1, label: labelOf(tree, node), box,
    matched: matches?.[tree.fn[node]] === 1,
    ...(tree.sides ? { before: tree.sides.before[node], after: tree.sides.after[node], ...changeOf(tree, node) } : {}) };
}

// At most `limit` frames of the layout, the root first. box is in window coordinates, also for frames scrolled out of
// sight.
export function describeFrames(graph: FlameGraph, limit = 10_000): object[] {
  const out: object[] = [];
  graph.layout?.rows.forEach((row, depth) => {
    for (let i = 0; i < row.nodes.length && out.length < limit; ++i) {
      const frame = row.nodes[i] >= 0 ? describeFrame(graph, row.nodes[i], graph.boxAt(depth, i)) : null;
      if (frame !== null) out.push(frame);
    }
  });
  return out;
}
