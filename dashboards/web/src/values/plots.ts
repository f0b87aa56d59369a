// SPDX-License-Identifier: Apache-2.0
// Plots of selected numbers below each other on the shared time axis; memory comes first.
import { TICK_MS, type App } from "../app";
import type { Marks } from "../chart/marks";
import { movesOf } from "../chart/moves";
import { Api, isAbort, msOf, rangeParams, type HistoryAnswer } from "../lib/api";
import { button, make } from "../lib/dom";
import { bytes } from "../lib/format";
import { isKnown } from "../lib/names";
import type { View } from "../lib/state";
import type { Feed } from "./feed";
import { LineChart, type DrawnLine } from "./line_chart";
import { valuesOf, type Line } from "./observations";

export const MAX_PLOTS = 8;
const MEMORY = "memory";
const POINTS = 300;

interface Plot { box: HTMLElement; caption: HTMLElement; chart: LineChart; last: string }

export class Plots {
  readonly element = make("div", { className: "value-plots", role: "group", "aria-label": "Plots" });
  private readonly api = new Api();
  private readonly plots = new Map<string, Plot>();
  private memory: HistoryAnswer | null = null;
  private asked = "";
  private next = 0;
  private pointed: number | null = null;
  private lines: readonly Line[] = [];

  constructor(private readonly app: App, private readonly feed: Feed, private readonly drop: (id: string) => void) {}

  destroy(): void {
    this.api.abort();
    for (const { chart } of this.plots.values()) chart.destroy();
  }

  update(view: View, lines: readonly Line[]): void {
    this.lines = lines;
    this.element.hidden = lines.length === 0;
    if (lines.length > 0) this.askMemory(view);
    this.draw(view);
  }

  // For scripts: what is drawn.
  describe(): object[] {
    return [...this.plots].map(([id, { last, caption }]) => ({ id, last, said: caption.textContent }));
  }

  // ------------------------------------------------------------ memory

  private askMemory(view: View): void {
    const { begin, end } = this.app.axis();
    const question = JSON.stringify([view.pid, view.axis, view.span, view.live ? 0 : [begin, end]]);
    if (question === this.asked && !(view.live && performance.now() >= this.next)) return;
    this.asked = question;
    this.next = performance.now() + 60_000;
    void this.loadMemory(view);
  }

  private async loadMemory(view: View): Promise<void> {
    const { begin, end } = this.app.axis(), started = performance.now();
    try {
      const measure = isKnown("live", this.app.target()?.mode) ? "live" : "allocated";
      this.memory = await this.api.history({ "selection.pid": view.pid, measure, group_by: "module", limit: 1, points: POINTS,
        ...(view.live && !view.axis ? { "selection.range.last_seconds": view.span || undefined } : rangeParams({ begin, end }, "selection.")) });
      this.draw(this.app.store.get());
    } catch (error) {
      if (isAbort(error)) return;
    }
    this.next = started + Math.max(TICK_MS * 0.9, 4 * (performance.now() - started));
  }

  private memoryLines(): { times: number[]; lines: DrawnLine[] } {
    const points = this.memory?.points ?? [];
    const heap = { label: "heap", values: points.map((point) => Number(point.heap_bytes) || NaN), slot: -1 };
    const live = { label: "live", values: points.map((point) => point.live_bytes), slot: -1, dash: true };
    return { times: points.map((point) => msOf(point.time_unix_ns) / 1000),
      lines: isKnown("live", this.app.target()?.mode) ? [heap, live] : [heap] };
  }

  // ------------------------------------------------------------ drawing

  private draw(view: View): void {
    const ids = this.lines.length === 0 ? [] : [MEMORY, ...this.lines.map(({ id }) => id)];
    for (const [id, { box, chart }] of this.plots) {
      if (ids.includes(id)) continue;
      chart.destroy();
      box.remove();
      this.plots.delete(id);
    }
    if (ids.length === 0) return;
    const memory = this.memoryLines(), last = memory.lines.map(({ label, values }) => `${label} ${textOrDash(values.at(-1), bytes)}`).join(", ");
    this.show(view, MEMORY, `Memory: ${last}`, last, memory.times, memory.lines, bytes);
    this.lines.forEach((line, i) => {
      const { lasts, lows, highs } = valuesOf(line, this.feed.times), index = this.pointed ?? this.feed.indexOf(view);
      const text = textOrDash(lasts[index], (value) => line.shown(value));
      this.show(view, line.id, `${line.title}: ${text}`, text, this.feed.times, [{ label: line.label, values: lasts, lows, highs, slot: i }],
        (value) => line.shown(value));
    });
  }

  private show(view: View, id: string, title: string, last: string, times: readonly number[], lines: DrawnLine[],
    tick: (value: number) => string): void {
    const plot = this.plots.get(id) ?? this.add(id);
    plot.caption.textContent = title;
    plot.last = last;
    plot.chart.show({ times, lines, axis: { ...this.app.axis() }, marks: this.marks(view), dark: this.app.isDark(), tick,
      isBinary: id === MEMORY });
  }

  private add(id: string): Plot {
    const isMemory = id === MEMORY, text = make("span", { className: "said" });
    const chart = new LineChart(movesOf(this.app), isMemory ? () => {} : (index) => this.point(index));
    const close = isMemory ? [] : [button("✕", () => this.drop(id), { className: "button small", "aria-label": "Remove this plot" })];
    const box = make("div", { className: "value-plot" }, make("div", { className: "plot-head" }, text, ...close), chart.element);
    this.element.append(box);
    const plot = { box, caption: text, chart, last: "" };
    this.plots.set(id, plot);
    return plot;
  }

  private point(index: number | null): void {
    if (index === this.pointed) return;
    this.pointed = index;
    for (const line of this.lines) {
      const plot = this.plots.get(line.id);
      if (!plot) continue;
      const at = index ?? this.feed.indexOf(this.app.store.get());
      plot.caption.textContent = `${line.title}: ${textOrDash(valuesOf(line, this.feed.times).lasts[at], (value) => line.shown(value))}`;
    }
  }

  private marks(view: View): Marks {
    const chosen = view.begin === undefined ? undefined : { begin: view.begin, end: view.end ?? this.app.recorded().now };
    return { chosen, base: view.compare, cursor: view.live ? undefined : view.end, phases: this.app.phases(),
      pauses: this.feed.lines.filter(({ isPause }) => isPause).map(({ ms, text }) => ({ time: ms, name: text })) };
  }
}

const textOrDash = (value: number | undefined, shown: (value: number) => string): string =>
  value === undefined || !Number.isFinite(value) ? "–" : shown(value);
