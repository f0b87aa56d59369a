// SPDX-License-Identifier: Apache-2.0
// Resident memory of the whole process over time, from the answers of the main chart, and page by page on request.
import "./memory.css";
import type { App, Panel } from "../app";
import { AreaChart } from "../chart/area_chart";
import type { Charts } from "../chart/charts";
import type { Area, Stack } from "../chart/stack";
import { movesOf } from "../chart/moves";
import { marksOf, shownIndex } from "../chart/time_axis";
import { clock } from "../lib/axis";
import { make } from "../lib/dom";
import { bytes, share } from "../lib/format";
import { paletteOf } from "../lib/palette";
import type { View } from "../lib/state";
import { PagesCard } from "./pages";
import { memoryStack, descriptionOf } from "./parts";

const HEIGHT = 190;

export function mountMemory(container: HTMLElement, app: App, charts: Charts): Memory {
  return new Memory(container, app, charts);
}

export class Memory implements Panel {
  private stack: Stack | null = null;
  private drawn = "";
  private pointed: { index: number | null; area: Area | null } = { index: null, area: null };
  private readonly plot = make("div", { className: "plot" });
  private readonly message = make("p", { className: "chart-message", hidden: true }, "Nothing is recorded for this time.");
  private readonly legend = make("div", { className: "chart-legend" });
  private readonly pages: PagesCard;
  private readonly chart: AreaChart;

  constructor(private readonly container: HTMLElement, private readonly app: App, private readonly charts: Charts) {
    this.pages = new PagesCard(app);
    this.chart = new AreaChart(this.plot, {
      ...movesOf(app), onArea: () => this.pages.ask(), onPoint: (index, area) => this.point(index, area),
    });
    container.append(make("div", { className: "card" },
      make("div", { className: "chart-head" }, make("h2", { id: "memory-title" }, "Resident memory"),
        make("span", { className: "muted" }, "of the whole process, by the kernel's counters and the runtime's"),
        make("span", { className: "space" }), this.pages.button),
      make("div", { className: "chart" }, make("div", { className: "plot-side" }, this.plot, this.message), this.legend),
      this.pages.element));
    charts.main.onStack = () => {
      this.stack = memoryStack(charts.main.stack!);
      container.hidden = false;
      this.redraw(true);
    };
  }

  update(view: View): void {
    this.container.hidden = view.pid === 0 || this.charts.main.stack === null;
    this.pages.update(view);
    this.redraw();
  }

  destroy(): void {
    this.chart.destroy();
    this.pages.destroy();
  }

  // For scripts: the areas drawn, from the bottom up, and their positions.
  describe(): object {
    if (!this.stack) return { points: 0, areas: [] };
    const { times, moments, areas } = this.stack, at = Math.floor(times.length / 2);
    return { points: times.length, times, resident: moments.map(({ memory }) => Number(memory!.resident_bytes)),
      areas: areas.map((area) => ({ label: area.label, values: area.values, place: this.chart.placeOf(area, at) })) };
  }

  private redraw(isNew = false): void {
    if (!this.stack) return;
    const view = this.app.store.get(), axis = this.app.axis(), marks = marksOf(this.app, view), dark = this.app.isDark();
    if (isNew || String(dark) !== this.drawn) {
      this.message.hidden = this.stack.times.length > 0;
      this.chart.show({ stack: this.stack, measure: "live", axis, marks, dark, lines: "resident", height: HEIGHT });
      this.drawn = String(dark);
    } else {
      this.chart.setAxis(axis);
      this.chart.setMarks(marks);
    }
    this.showLegend(view);
  }

  private point(index: number | null, area: Area | null): void {
    this.pointed = { index, area };
    this.showLegend(this.app.store.get());
  }

  // Largest first, like the areas of the chart from the top.
  private showLegend(view: View): void {
    if (!this.stack) return;
    const at = shownIndex(this.stack, view, this.pointed.index), memory = this.stack.moments[at]?.memory;
    if (!memory) return this.legend.replaceChildren();
    const palette = paletteOf(this.app.isDark()), all = Number(memory.resident_bytes);
    const rows = [...this.stack.areas].reverse().map((area) => {
      const swatch = make("i", { className: "swatch" }), value = area.values[at] ?? 0;
      swatch.style.background = palette.area(area.slot);
      return make("li", {}, make("div", { title: descriptionOf(area), className: this.pointed.area?.key === area.key ? "pointed" : "" },
        swatch, make("span", { className: "part-name" }, area.label),
        make("span", { className: "number" }, `${bytes(value)} · ${share(value, all)}`)));
    });
    const facts: [name: string, value: string][] = [["resident", bytes(all)], ["swapped out", bytes(Number(memory.swapped_bytes))]];
    this.legend.replaceChildren(
      make("p", { className: "chart-legend-head" }, `Parts at ${clock(this.stack.times[at]! * 1000)}`), make("ol", {}, ...rows),
      make("dl", {}, ...facts.map(([name, value]) => make("div", {}, make("dt", { className: name.replace(/\W.*/, "") }, name), make("dd", {}, value)))));
  }
}
