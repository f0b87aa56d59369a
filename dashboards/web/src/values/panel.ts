// SPDX-License-Identifier: Apache-2.0
// The tab with published values and module values.
import type { App, Panel } from "../app";
import { Api } from "../lib/api";
import { clock } from "../lib/axis";
import { button, make } from "../lib/dom";
import { count } from "../lib/format";
import type { View } from "../lib/state";
import { escapeRegExp } from "../lib/text";
import { Feed } from "./feed";
import { GraphView } from "./graph";
import { LogPane } from "./log";
import { Modules } from "./modules";
import { linesOf, observationsOf, type Line, type Observation } from "./observations";
import { MAX_PLOTS, Plots } from "./plots";
import { Rows } from "./rows";
import { Control } from "./switches";
import "./values.css";

const NODES = 300; // more are not readable
const NOTHING = "This program publishes no values (see docs/values.md). Module values can be read in any program.";

// Plots of the view, in its order.
function plotsOf(view: View): string[] {
  try {
    const parts: unknown = JSON.parse(view.extra["values.plots"] ?? "[]");
    return Array.isArray(parts) ? parts.filter((part) => typeof part === "string").slice(0, MAX_PLOTS) : [];
  } catch {
    return [];
  }
}

export class ValuesPanel implements Panel {
  private readonly api = new Api();
  private readonly feed: Feed;
  private readonly plots: Plots;
  private readonly rows: Rows;
  private readonly log = new LogPane();
  private readonly graph = new GraphView();
  private readonly parts = make("div", { className: "values-parts" });
  private readonly modules: Modules;
  private readonly filter = make("input", { type: "search", className: "field", placeholder: "Names that have …", "aria-label": "Names" });
  private readonly status = make("output", { className: "muted" });
  private readonly resume: HTMLButtonElement;
  private readonly control: Control;
  private readonly all: HTMLElement; // switches for all visible values
  private pid = 0;

  constructor(container: HTMLElement, private readonly app: App) {
    this.feed = new Feed(app, () => this.render(app.store.get()));
    this.plots = new Plots(app, this.feed, (id) => this.togglePlot(id));
    this.control = new Control(app, () => this.feed.askSoon());
    this.rows = new Rows({ onPlot: (id) => this.togglePlot(id), onGraph: (observation) => void this.showGraph(observation.name, observation) }, this.control);
    this.modules = new Modules(app, ({ name }) => void this.showGraph(name, null), ({ name }) => void this.control.keep(name));
    this.resume = button("Go on", () => void this.feed.resume(), { className: "button primary", hidden: true,
      title: "Resumes the program, which waits in a pause" });
    const all = (label: string, enabled: boolean): HTMLButtonElement =>
      button(label, () => void this.control.switchAll(this.filter.value, enabled), { className: "button small",
        title: `${enabled ? "Resumes" : "Stops"} updating all values that match the field` });
    this.all = make("span", { className: "switches" }, all("All off", false), all("All on", true));
    this.filter.addEventListener("input", () => app.store.setExtra("values.names", this.filter.value));
    this.parts.append(make("div", { className: "values-table" }, this.rows.element), this.log.element);
    container.append(make("div", { className: "values-controls" }, this.filter, this.status, make("span", { className: "space" }), this.resume, this.all),
      this.plots.element, this.parts,
      this.modules.element, this.graph.element);
  }

  update(view: View): void {
    const isShown = view.tab === "values";
    if (view.pid !== this.pid) {
      this.pid = view.pid;
      this.graph.element.hidden = true;
      this.modules.clear();
    }
    this.feed.update(view, isShown);
    if (isShown) this.render(view);
  }

  destroy(): void {
    this.feed.destroy();
    this.plots.destroy();
  }

  // For scripts.
  describe(): object {
    return { rows: this.rows.describe(), plots: this.plots.describe(), times: this.feed.times, lines: this.feed.lines,
      said: this.status.textContent };
  }

  private render(view: View): void {
    if (view.tab !== "values") return;
    const { history, now, times } = this.feed;
    const all = history ? observationsOf(history, now?.reported ?? [], now?.kept ?? []) : [], names = view.extra["values.names"] ?? "";
    const shown = all.filter(({ name }) => name.includes(names)), index = this.feed.indexOf(view), plotted = plotsOf(view);
    if (document.activeElement !== this.filter) this.filter.value = names;
    this.showStatus(view, all, shown);
    this.resume.hidden = !now || now.waiting === 0;
    this.rows.element.hidden = all.length === 0;
    const canControl = this.app.server.control && this.app.runs();
    this.all.hidden = !canControl || !view.live || !now || now.reported.length === 0;
    this.rows.show({ observations: shown, times, index, isNow: view.live && this.app.runs(), plotted, canControl });
    const lines = new Map<string, Line>(all.flatMap(linesOf).map((line) => [line.id, line]));
    this.plots.update(view, plotted.flatMap((id) => lines.get(id) ?? []));
    this.log.show(this.feed.lines, view.live ? Infinity : view.end ?? Infinity, this.app.server.control);
    this.log.element.hidden = all.length === 0 && this.feed.lines.length === 0;
    this.parts.hidden = this.log.element.hidden;
    this.filter.hidden = all.length === 0 && names === "";
    this.modules.update();
  }

  private showStatus(view: View, all: readonly Observation[], shown: readonly Observation[]): void {
    const { history, now, error } = this.feed, parts: string[] = [];
    if (error !== "") parts.push(error);
    else if (!history) parts.push("Loading …");
    else if (all.length === 0) parts.push(NOTHING);
    else parts.push(`${count(shown.length)} of ${count(all.length)}${view.live || view.end === undefined ? "" : `, as at ${clock(view.end)}`}`);
    if (now && now.waiting > 0) parts.push(`${count(now.waiting)} thread${now.waiting === 1 ? "" : "s"} of the program wait in a pause`);
    if (Number(history?.lost_lines ?? 0) > 0) parts.push(`${count(Number(history!.lost_lines))} lines were lost before they were read`);
    if (Number(now?.refused_names ?? 0) > 0) parts.push(`for ${count(Number(now!.refused_names))} names the program's registry had no place`);
    if (now && now.why_nothing_reported !== "") parts.push(now.why_nothing_reported);
    this.status.textContent = parts.join("; ");
  }

  private togglePlot(id: string): void {
    const { store } = this.app, plotted = plotsOf(store.get());
    const next = plotted.includes(id) ? plotted.filter((one) => one !== id) : [...plotted, id].slice(-MAX_PLOTS);
    store.setExtra("values.plots", next.length === 0 ? "" : JSON.stringify(next), true);
  }

  // observation is null for a module value.
  private async showGraph(name: string, observation: Observation | null): Promise<void> {
    const { pid } = this.app.store.get();
    this.graph.waitFor(name);
    try {
      const answer = await this.api.values({ pid, pattern: `^${escapeRegExp(name)}$`, only_reported: observation !== null, graph_nodes: NODES });
      const found = observation ? answer.reported.find(({ value }) => value !== undefined) : answer.values[0];
      if (found?.value) this.graph.show(name, found.value);
      else this.graph.fail(`${name} no longer exists`);
      this.graph.element.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.graph.fail((error as Error).message);
    }
  }
}

export const mountValues = (container: HTMLElement, app: App): ValuesPanel => new ValuesPanel(container, app);
