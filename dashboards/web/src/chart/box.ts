// SPDX-License-Identifier: Apache-2.0
// One chart with its heading and legend; loads the history it shows.
import { TICK_MS, type App } from "../app";
import { AGE_FIELDS, Api, ApiError, filterParams, isAbort, rangeParams, type Params } from "../lib/api";
import { make } from "../lib/dom";
import { paletteOf } from "../lib/palette";
import type { ChartSpec, View } from "../lib/state";
import { AreaChart } from "./area_chart";
import { drilled } from "./groups";
import { HeapLane } from "./heap_lane";
import { movesOf } from "./moves";
import { Legend } from "./legend";
import { Slots, stackOf, type Area, type Stack } from "./stack";
import { marksOf, shownIndex } from "./time_axis";

export interface BoxOptions {
  specOf(view: View): ChartSpec;
  height: number;
  isMain: boolean;
}

const SETTLE_MS = 60; // waits until a drag or the wheel pauses
// For a day with ten thousand sites memprofd answers up to 300 points several times faster than more, which need
// finer windows.
const MAX_POINTS = 300;
// Largest share of time spent on requests, so that slow answers are requested less often.
const LOAD = 0.25;

export class ChartBox {
  readonly element = make("div", { className: "chart" });
  stack: Stack | null = null;
  onStack = (): void => {}; // called for each new stack
  private readonly plot = make("div", { className: "plot" });
  private readonly message = make("p", { className: "chart-message", hidden: true });
  private readonly note = make("p", { className: "chart-note", hidden: true },
    "Lifetime conditions are omitted: they are unknown over time.");
  private readonly legend: Legend;
  private readonly heaps: HeapLane;
  private readonly chart: AreaChart;
  private readonly api = new Api();
  private readonly slots = new Slots();
  private asked = ""; // the last question
  private next = 0; // when a live chart asks again, ms of performance.now()
  private timer = 0;
  private pointed: { index: number | null; area: Area | null } = { index: null, area: null };

  constructor(private readonly app: App, private readonly options: BoxOptions) {
    this.legend = new Legend((area) => this.open(area));
    this.heaps = new HeapLane(app);
    this.chart = new AreaChart(this.plot, {
      onArea: (area) => this.open(area),
      ...movesOf(app),
      onPoint: (index, area) => this.point(index, area),
    });
    this.element.append(make("div", { className: "plot-side" }, this.note, ...(options.isMain ? [this.heaps.element] : []), this.plot, this.message), this.legend.element);
  }

  destroy(): void {
    window.clearTimeout(this.timer);
    this.api.abort();
    this.chart.destroy();
  }

  update(view: View): void {
    const spec = this.options.specOf(view);
    if (spec.pid === 0) return;
    this.note.hidden = !AGE_FIELDS.some((name) => name in view.filter);
    const axis = this.app.axis();
    const question = JSON.stringify([spec, view.filter, view.extra["charts.top"], view.axis, view.span,
      view.live ? 0 : [axis.begin, axis.end]]);
    if (question !== this.asked) {
      this.asked = question;
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.load(), this.stack ? SETTLE_MS : 0);
    } else if (view.live && performance.now() >= this.next) {
      void this.load();
    }
    if (this.options.isMain) this.heaps.update(view);
    this.redraw();
  }

  // For scripts: the areas drawn, from the bottom up, and their positions.
  describe(): object {
    const stack = this.stack;
    if (!stack) return { points: 0, areas: [] };
    const axis = this.app.axis(), middle = (axis.begin + axis.end) / 2000;
    const at = Math.max(0, stack.times.findIndex((time) => time >= middle));
    return { by: stack.by, phases: this.app.phases(this.options.specOf(this.app.store.get()).pid), points: stack.times.length, times: stack.times, moments: stack.moments,
      pointed: this.pointed.index, areas: stack.areas.map((area) => ({ label: area.label, values: area.values, errors: area.errors,
        place: this.chart.placeOf(area, at) })) };
  }

  // ------------------------------------------------------------ requests

  private params(view: View, spec: ChartSpec): Params {
    const { begin, end } = this.app.axis(), points = Math.round(this.plot.clientWidth / 2);
    return { "selection.pid": spec.pid, ...filterParams(view, "selection."),
      ...(view.live && !view.axis ? { "selection.range.last_seconds": view.span || undefined }
        : rangeParams({ begin, end }, "selection.")),
      group_by: spec.groupBy, limit: view.extra["charts.top"] ?? "8", points: Math.min(MAX_POINTS, Math.max(120, points)) };
  }

  private async load(): Promise<void> {
    const view = this.app.store.get(), spec = this.options.specOf(view);
    const started = performance.now();
    this.next = started + 60_000;  // prevents a second request while this one runs
    try {
      const answer = await this.api.history({ ...this.params(view, spec), measure: spec.measure });
      if (view.live && !view.axis) this.app.noteHistory(spec.pid, answer);
      this.stack = stackOf(answer, spec.groupBy, this.slots, this.stack);
      this.showMessage(answer.points.length < 2 ? "Nothing recorded in this range yet." : "");
      this.redraw(true);
      this.onStack();
    } catch (error) {
      if (isAbort(error)) return;
      // History rejects some filters; that is not an error of the page.
      this.showMessage(error instanceof Error ? error.message : String(error));
      if (!(error instanceof ApiError)) this.app.fail(error);
    }
    const took = performance.now() - started;
    this.next = started + Math.max(TICK_MS * 0.9, took / LOAD);
  }

  private showMessage(text: string): void {
    this.message.textContent = text;
    this.message.hidden = text === "";
  }

  // ------------------------------------------------------------ drawing

  private redraw(isNew = false): void {
    if (!this.stack) return;
    const view = this.app.store.get(), spec = this.options.specOf(view), dark = this.app.isDark();
    const axis = this.app.axis(), marks = marksOf(this.app, view, spec.pid);
    const state = JSON.stringify([dark, view.extra["charts.lines"]]);
    if (isNew || state !== this.drawn) {
      this.chart.show({ stack: this.stack, measure: spec.measure, axis, marks, dark,
        lines: this.lines(view) ? "heap" : "none", height: this.options.height });
      this.drawn = state;
    } else {
      this.chart.setAxis(axis);
      this.chart.setMarks(marks);
    }
    this.showLegend();
  }
  private drawn = "";

  private lines(view: View): boolean {
    return view.extra["charts.lines"] !== "0";
  }

  private showLegend(): void {
    if (!this.stack) return;
    const view = this.app.store.get();
    this.legend.show({ stack: this.stack, measure: this.options.specOf(view).measure, index: shownIndex(this.stack, view, this.pointed.index),
      pointed: this.pointed.area, palette: paletteOf(this.app.isDark()), lines: this.lines(view) });
  }

  // ------------------------------------------------------------ input

  private point(index: number | null, area: Area | null): void {
    this.pointed = { index, area };
    this.showLegend();
  }

  private open(area: Area): void {
    const view = this.app.store.get(), spec = this.options.specOf(view);
    if (!area.site) return;
    if (spec.groupBy === "callstack") {
      this.legend.showFrames(area);
      return;
    }
    const change = drilled({ ...view, groupBy: spec.groupBy }, area.site, spec.groupBy);
    if (change) this.app.store.update({ pid: spec.pid, measure: spec.measure, ...change }, true);
  }
}
