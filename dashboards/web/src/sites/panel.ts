// SPDX-License-Identifier: Apache-2.0
// The tab with the table of sites and the details of one.
import type { App, Panel } from "../app";
import { choice, type Choice } from "../flame/choice";
import { frameMenu } from "../flame/frame_menu";
import { openMenu } from "../flame/menu";
import { Api, isAbort } from "../lib/api";
import { button, make } from "../lib/dom";
import * as format from "../lib/format";
import { groupOptions, groupPlural, type GroupBy } from "../lib/names";
import type { View } from "../lib/state";
import { columnsOf, sortColumn, sorted } from "./columns";
import { toCsv } from "./csv";
import { Detail } from "./detail";
import { askRows, FIRST, groupOf, keyOf, modeOf, nameOf, orderOf, sortOf, type Row, type Rows } from "./rows";
import { Table } from "./table";
import "./sites.css";

const MIN_AGE_MS = 2000;
const SOON_MS = 60;

export class SitesPanel implements Panel {
  private readonly api = new Api();
  private readonly table: Table;
  private readonly detail: Detail;
  private readonly groups: Choice<GroupBy>;
  private readonly modes: Choice<"sites" | "growth">;
  private readonly controls = make("div", { className: "sites-controls" });
  private readonly sort = make("select", { className: "field sites-sort", "aria-label": "Sort by" });  // shown if
                                                                                                       // columns are
                                                                                                       // left out
  private readonly count = make("output", { className: "sites-count" });
  private readonly all: HTMLButtonElement;
  private answer: Rows | null = null;
  private key = "";  // key of the question that is shown or pending
  private of = "";  // key of the answer
  private order = "";  // order of the answer
  private askedMs = 0;
  private tookMs = 0;
  private isAsking = false;
  private timer = 0;
  private drawn: unknown[] = [];
  private opened = "";  // id of the row that was last scrolled into view

  constructor(private readonly container: HTMLElement, private readonly app: App) {
    const { store } = app;
    this.groups = choice("Group by", groupOptions().map(([value, label]) => ({ value, label })),
      (value) => this.set({ by: value === "site" ? "" : value, open: "" }));
    this.modes = choice("What is listed", [
      { value: "sites", label: "Sizes", title: "Live, allocated, promoted and dead memory" },
      { value: "growth", label: "Growth", title: "Growth over the range: possible leaks, most suspect first" }],
      (value) => this.set({ mode: value === "growth" ? value : "", sort: "" }));
    this.all = button("Show all", () => this.set({ all: "1" }), { className: "button" });
    this.table = new Table({
      nameOf: (row) => nameOf(row.site, this.answer?.groupBy ?? "site"),
      onSort: (sort) => this.set({ sort }),
      onFit: (isNarrow) => this.controls.classList.toggle("narrow", isNarrow),
      onOpen: (row) => this.open(row),
      onMenu: (row, place) => openMenu(this.choicesOf(row), place, "Actions"),
    });
    this.detail = new Detail(app, () => {
      this.set({ open: "" });
      this.table.element.focus();
    });
    this.sort.addEventListener("change", () => this.set({ sort: this.sort.value }));
    this.controls.append(this.modes.element, this.groups.element, this.sort, make("span", { className: "space" }), this.count, this.all);
    container.append(this.controls, this.table.element, this.detail.element);
    app.exporters.push({ id: "sites-csv", label: "Table as CSV",
      available: () => store.get().tab === "sites" && this.answer !== null,
      run: async () => ({ name: `sites-${store.get().pid}.csv`,
        blob: toCsv(this.table.rows, (row) => nameOf(row.site, this.answer?.groupBy ?? "site")) }) });
    this.table.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && store.get().extra["sites.open"]) this.set({ open: "" });
    });
  }

  destroy(): void {
    window.clearTimeout(this.timer);
    this.api.abort();
    this.detail.destroy();
    this.table.destroy();
    this.container.replaceChildren();
  }

  update(view: View): void {
    if (view.tab !== "sites" || view.pid === 0) return;
    this.modes.show(view.extra["sites.mode"] === "growth" && !view.compare ? "growth" : "sites",
      () => view.compare === undefined);
    this.groups.show(groupOf(view));
    const key = this.keyOf(view);
    const age = performance.now() - this.askedMs;
    if (key !== this.key) this.askSoon(key);
    else if (view.live && !this.isAsking && age > Math.max(MIN_AGE_MS, 10 * this.tookMs)) void this.ask();
    this.render(view);
  }

  // Key of the question for a view; a complete answer need not be asked again in another order.
  private keyOf(view: View): string {
    const isWhole = this.answer !== null && this.answer.rows.length >= this.answer.groups && this.of === keyOf(view);
    return `${keyOf(view)} ${isWhole ? this.order : orderOf(view)}`;
  }

  // Delays the question, so that the new order is drawn first and several changes cause one question.
  private askSoon(key: string): void {
    this.key = key;
    this.isAsking = true;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.ask(), this.answer === null ? 0 : SOON_MS);
  }

  private async ask(): Promise<void> {
    const view = this.app.store.get();
    const key = this.keyOf(view);
    this.key = key;
    this.isAsking = true;
    this.askedMs = performance.now();
    const began = this.askedMs;
    try {
      const answer = await askRows(this.api, view);
      this.answer = answer;
      this.of = keyOf(view);
      this.order = key.slice(this.of.length + 1);
      this.tookMs = performance.now() - began;
      this.render(this.app.store.get());
    } catch (error) {
      if (!isAbort(error)) this.count.textContent = (error as Error).message;
    } finally {
      if (this.askedMs === began && this.key === key) this.isAsking = false;
    }
  }

  // Sorts the present rows at once; the server's order follows.
  private render(view: View): void {
    const { answer } = this;
    if (answer === null || answer.mode !== modeOf(view) || answer.groupBy !== groupOf(view)) {
      this.count.textContent = this.isAsking ? "Loading…" : this.count.textContent;
      return;
    }
    const open = view.extra["sites.open"] ?? "";
    const drawn = [answer, sortOf(view), view.measure, open];
    if (drawn.every((part, i) => part === this.drawn[i])) return;
    this.drawn = drawn;
    const columns = columnsOf(answer.mode, view);
    const sort = sortColumn(columns, sortOf(view), answer.mode, view);
    const rows = sorted(answer.rows, columns, sort, (row) => nameOf(row.site, answer.groupBy).name);
    this.table.show(rows, columns, sort, open, answer);
    this.sort.replaceChildren(...columns.map(({ key, label }) => make("option", { value: key, selected: key === sort }, `By ${label.toLowerCase()}`)));
    this.showCount(answer);
    this.detail.show(answer.rows.find(({ id }) => id === open) ?? null, answer, view);
    if (open !== this.opened && !this.detail.element.hidden) this.detail.element.scrollIntoView({ block: "nearest" });
    this.opened = open;
  }

  // For scripts: the rows in display order; null while the answer belongs to another view.
  describe(): object | null {
    const { answer } = this;
    if (answer === null || this.isAsking || this.key !== this.keyOf(this.app.store.get())) return null;
    return { mode: answer.mode, groupBy: answer.groupBy, groups: answer.groups, sort: this.table.sort,
      begin: String(answer.begin), end: String(answer.end), tookMs: this.tookMs,
      rows: this.table.rows.map(({ site, diff, leak }) => ({ ...nameOf(site, answer.groupBy), site, diff, leak })) };
  }

  private showCount({ rows, groups, groupBy, mode, note }: Rows): void {
    const isCut = groups > rows.length && rows.length >= FIRST;
    const groupsOf = (number: number) => (number === 1 ? groupBy : groupPlural(groupBy));
    this.count.textContent = (isCut ? `the first ${format.count(rows.length)} of ${format.count(groups)} ${groupsOf(groups)}`
      : `${format.count(rows.length)} ${groupsOf(rows.length)}`) + (mode === "growth" ? (rows.length === 1 ? " that grows" : " that grow") : "");
    if (note !== undefined) this.count.textContent += `; ${note}`;
    this.all.hidden = !isCut;
    this.all.textContent = `Show all ${format.count(groups)}`;
  }

  private open(row: Row): void {
    this.set({ open: row.id === this.app.store.get().extra["sites.open"] ? "" : row.id });
  }
  private choicesOf(row: Row) {
    const more = row.site.function === "" ? [] : frameMenu(this.app, row.site.function);
    return [{ label: "Details", run: () => this.set({ open: row.id }) }, ...more];
  }

  private set(change: Record<string, string>): void {
    const extra = { ...this.app.store.get().extra };
    for (const [name, value] of Object.entries(change)) {
      if (value === "") delete extra[`sites.${name}`];
      else extra[`sites.${name}`] = value;
    }
    this.app.store.update({ extra });
  }
}

export const mountSites = (container: HTMLElement, app: App): SitesPanel => new SitesPanel(container, app);
