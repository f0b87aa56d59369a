// SPDX-License-Identifier: Apache-2.0
// Memory over time: the main chart of the view, and further charts on the same axis.
import "./charts.css";
import type { App, Panel } from "../app";
import { button, choice, make, select } from "../lib/dom";
import { groupLabel, groupOptions, isKnown, measureOptions, type Measure } from "../lib/names";
import type { ChartSpec, View } from "../lib/state";
import { ChartBox } from "./box";
import { chartFiles } from "./export";
import { undrilled } from "./groups";

// Groups that the main chart has room for.
const MAIN_GROUPS = ["module", "file", "function", "site", "callstack", "thread"];
const TOPS: [string, string][] = ["5", "8", "10", "15"].map((n) => [n, `top ${n}`]);
const MAX_CHARTS = 6;

export function mountCharts(container: HTMLElement, app: App): Charts {
  const charts = new Charts(container, app);
  app.exporters.push(...chartFiles(() => charts.main.stack, app));
  return charts;
}

const mainSpec = ({ pid, groupBy, measure }: View): ChartSpec => ({ pid, groupBy, measure });

export class Charts implements Panel {
  readonly main: ChartBox;
  private others: { box: ChartBox; head: OtherHead; card: HTMLElement }[] = [];
  private readonly list = make("div", { className: "others" });
  private readonly head: MainHead;

  constructor(container: HTMLElement, private readonly app: App) {
    this.head = new MainHead(app);
    this.main = new ChartBox(app, { specOf: mainSpec, height: 300, isMain: true });
    container.append(make("div", { className: "card" }, this.head.element, this.head.path, this.main.element), this.list);
  }

  update(view: View): void {
    this.head.update(view);
    this.main.update(view);
    while (this.others.length > view.charts.length) this.drop();
    while (this.others.length < view.charts.length) this.add(this.others.length);
    for (const { box, head } of this.others) {
      head.update(view);
      box.update(view);
    }
  }

  destroy(): void {
    this.main.destroy();
    while (this.others.length > 0) this.drop();
  }

  // For scripts: all charts, the main one first.
  describe(): object[] {
    return [this.main, ...this.others.map(({ box }) => box)].map((box) => box.describe());
  }

  private add(index: number): void {
    const specOf = (view: View) => view.charts[index] ?? mainSpec(view);
    const box = new ChartBox(this.app, { specOf, height: 200, isMain: false });
    const head = new OtherHead(this.app, index);
    const card = make("div", { className: "card" }, head.element, box.element);
    this.list.append(card);
    this.others.push({ box, head, card });
  }
  private drop(): void {
    const last = this.others.pop();
    last?.box.destroy();
    last?.card.remove();
  }
}

// Heading of the main chart, with the path back from a drill-down.
class MainHead {
  readonly element: HTMLElement;
  readonly path = make("nav", { className: "drill-path", "aria-label": "Drill-down" });
  private readonly groups;
  private readonly measure;
  private readonly top;
  private readonly lines;
  private readonly more;

  constructor(private readonly app: App) {
    const { store } = app;
    this.measure = select("Measure", measureOptions(), (measure) => store.update({ measure }, true));
    this.groups = choice("Group by", MAIN_GROUPS.map((by) => [by, groupLabel(by)] as const), (groupBy) => store.update({ groupBy }, true));
    this.top = select("Areas", TOPS, (top) => store.setExtra("charts.top", top === "8" ? "" : top));
    this.lines = button("Heap", () => store.setExtra("charts.lines", this.hasLines() ? "0" : ""),
      { className: "button", title: "Lines: size of the major heap, and all live memory" });
    this.more = button("+ Compare chart", () => this.addChart(), { className: "button", title: "Another chart on the same time axis" });
    this.element = make("div", { className: "chart-head" }, make("h2", {}, "Memory over time"), this.measure.element,
      this.groups.element, this.top.element, this.lines, make("span", { className: "space" }), this.more);
  }

  update(view: View): void {
    this.measure.set(view.measure);
    this.groups.set(view.groupBy);
    this.top.set(view.extra["charts.top"] ?? "8");
    this.lines.setAttribute("aria-pressed", String(this.hasLines()));
    this.more.disabled = view.charts.length >= MAX_CHARTS;
    this.showPath(view);
  }

  private hasLines(): boolean {
    return this.app.store.get().extra["charts.lines"] !== "0";
  }

  private addChart(): void {
    const view = this.app.store.get();
    const measure: Measure =
      view.measure === "live" || !isKnown("live", this.app.target()?.mode, view.filter["heap"]) ? "allocated" : "live";
    this.app.store.update({ charts: [...view.charts, { ...mainSpec(view), measure }] }, true);
  }

  private showPath(view: View): void {
    this.path.hidden = view.drill.length === 0;
    const steps = view.drill.map((_, index) =>
      button(index === 0 ? "All" : view.drill[index - 1]!.label, () => this.app.store.update(undrilled(view, index), true)));
    const last = view.drill.at(-1);
    this.path.replaceChildren(...steps, ...(last ? [make("span", { "aria-current": "true" }, last.label)] : []));
  }
}

// Heading of a further chart.
class OtherHead {
  readonly element: HTMLElement;
  private readonly pid = make("select", { className: "field", "aria-label": "Program" });
  private readonly measure;
  private readonly groups;
  private listed = "";

  constructor(private readonly app: App, private readonly index: number) {
    this.pid.addEventListener("change", () => this.change({ pid: Number(this.pid.value) }));
    this.measure = select("Measure", measureOptions(), (measure) => this.change({ measure }));
    this.groups = select("Group by", groupOptions(), (groupBy) => this.change({ groupBy }));
    this.element = make("div", { className: "chart-head" }, this.pid, this.measure.element, this.groups.element,
      make("span", { className: "space" }),
      button("Remove", () => this.remove(), { className: "button", "aria-label": "Remove this chart" }));
  }

  update(view: View): void {
    const spec = view.charts[this.index];
    if (!spec) return;
    const known = this.app.targets.map(({ pid, comm }) => [pid, comm] as const);
    if (JSON.stringify(known) !== this.listed) {
      this.pid.replaceChildren(...known.map(([pid, comm]) => make("option", { value: String(pid) }, `${comm} (${pid})`)));
      this.listed = JSON.stringify(known);
    }
    this.pid.value = String(spec.pid);
    this.measure.set(spec.measure);
    this.groups.set(spec.groupBy);
  }

  private change(change: Partial<ChartSpec>): void {
    const charts = this.app.store.get().charts.map((spec, i) => (i === this.index ? { ...spec, ...change } : spec));
    this.app.store.update({ charts }, true);
  }
  private remove(): void {
    this.app.store.update({ charts: this.app.store.get().charts.filter((_, i) => i !== this.index) }, true);
  }
}
