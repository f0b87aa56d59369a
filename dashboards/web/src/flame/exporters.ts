// SPDX-License-Identifier: Apache-2.0
// What the page's export menu offers of the graph.
import type { App } from "../app";
import type { GraphView } from "./flame_graph";
import { toCollapsed, toPng, toSvg } from "./export";
import type { FlamePanel } from "./panel";

const WIDTH = 1200;

export function addExporters(app: App, panel: FlamePanel): void {
  const add = (id: string, label: string, suffix: string, make: (view: GraphView) => Blob | Promise<Blob>) =>
    app.exporters.push({
      id: `flame-${id}`,
      label,
      available: () => app.store.get().tab === "flame" && panel.graph.view !== null,
      run: async () => {
        if (panel.graph.view === null) throw new Error("the flame graph is not loaded yet: wait until it is drawn");
        return { name: `${fileName(app)}.${suffix}`, blob: await make(panel.graph.view) };
      },
    });
  const caption = () => ({ title: panel.title(), subtitle: panel.subtitle() });
  const width = () => Math.max(WIDTH, panel.graph.element.clientWidth);
  add("svg", "Flame graph as SVG", "svg", (view) => toSvg(view, width(), caption()));
  add("png", "Flame graph as PNG", "png", (view) => toPng(view, width(), caption()));
  add("collapsed", "Frames shown, collapsed stacks", "collapsed.txt", toCollapsed);
}

function fileName(app: App): string {
  const { pid, measure, compare } = app.store.get();
  const comm = (app.target()?.comm ?? "memprofd").replace(/[^\w.-]/g, "_");
  return `${comm}-${pid}-${measure}${compare ? "-difference" : ""}`;
}
