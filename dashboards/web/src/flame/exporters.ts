// SPDX-License-Identifier: Apache-2.0
// Entries of the page's export menu for the graph.
import { fileName, type App } from "../app";
import { toCollapsed, toPng, toSvg } from "./export";
import type { FlameGraph } from "./flame_graph";
import type { GraphView } from "./painter";

const WIDTH = 1200;

// A graph with its caption.
export interface Titled {
  readonly graph: FlameGraph;
  title(): string;
  subtitle(): string;
}

export function addExporters(app: App, panel: Titled): void {
  const add = (id: string, label: string, suffix: string, make: (view: GraphView) => Blob | Promise<Blob>) =>
    app.exporters.push({
      id: `flame-${id}`,
      label,
      available: () => app.store.get().tab === "flame" && panel.graph.view !== null,
      run: async () => {
        if (panel.graph.view === null) throw new Error("the flame graph is not loaded yet: wait until it is drawn");
        return { name: fileName(app, whatOf(app), suffix), blob: await make(panel.graph.view) };
      },
    });
  const caption = () => ({ title: panel.title(), subtitle: panel.subtitle() });
  const width = () => Math.max(WIDTH, panel.graph.element.clientWidth);
  add("svg", "Flame graph as SVG", "svg", (view) => toSvg(view, width(), caption()));
  add("png", "Flame graph as PNG", "png", (view) => toPng(view, width(), caption()));
  add("collapsed", "Visible frames, collapsed stacks", "collapsed.txt", toCollapsed);
}

function whatOf(app: App): string {
  const { measure, compare } = app.store.get();
  return `${measure}${compare ? "-difference" : ""}`;
}
