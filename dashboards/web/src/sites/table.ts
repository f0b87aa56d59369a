// SPDX-License-Identifier: Apache-2.0
// A table of any length; only the visible rows are elements.
//
// Keys: up, down, page up, page down, Home and End move; Enter opens a row; the menu key or the right button opens a
// menu.
import type { WindowPoint } from "../flame/flame_graph";
import { button, make } from "../lib/dom";
import type { Column } from "./columns";
import { axisOf, sparkline, type Axis } from "./histogram";
import type { Row } from "./rows";

const ROW = 42;  // CSS pixels, as in sites.css
const BEYOND = 2;  // extra rows above and below the visible ones
// Least width of the name and of each column, in pixels. If the table is narrower than ALL_PX, only the first columns
// that fit stay, and the sort column.
const NAME_PX = 200, COLUMN_PX = 130, ALL_PX = 1040;

function fitting(columns: readonly Column[], sort: string, width: number): readonly Column[] {
  if (width >= ALL_PX || width === 0) return columns;
  const room = Math.max(1, Math.floor((width - NAME_PX) / COLUMN_PX));
  const first = [...columns].sort((a, b) => Number(b.key === sort) - Number(a.key === sort)).slice(0, room);
  return columns.filter((column) => first.includes(column));
}

export interface TableHandlers {
  nameOf: (row: Row) => { name: string; where: string };
  onSort: (key: string) => void;
  onFit: (isNarrow: boolean) => void;  // true if columns are left out
  onOpen: (row: Row) => void;
  onMenu: (row: Row, place: WindowPoint) => void;
}

export class Table {
  readonly element = make("div", { className: "sites-table", role: "grid", tabIndex: 0, "aria-label": "Sites" });
  private readonly head = make("div", { className: "sites-head", role: "row" });
  private readonly body = make("div", { className: "sites-body", role: "rowgroup" });
  rows: readonly Row[] = [];  // in display order
  sort = "";  // key of the sort column
  private all: readonly Column[] = [];
  private columns: readonly Column[] = [];  // those of all that fit
  private largest = new Map<string, number>();  // by column: the value of a full bar
  private axis: Axis = axisOf([]);
  private source: object | null = null;  // rows that the scales belong to
  private headOf = "";  // columns of the current head
  private current = "";  // id of the row selected by keys
  private frame = 0;
  private readonly resizes = new ResizeObserver(() => {
    this.fit();
    this.draw();
  });

  constructor(private readonly handlers: TableHandlers) {
    this.element.append(this.head, this.body);
    this.element.addEventListener("scroll", () => this.soon(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("contextmenu", (event) => this.menu(event));
    this.resizes.observe(this.element);
  }

  destroy(): void {
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
    this.element.remove();
  }

  // opened: id of the row whose details are shown. source identifies the rows, in any order.
  show(rows: readonly Row[], columns: readonly Column[], sort: string, opened: string, source: object): void {
    if (opened !== "") this.current = opened;
    this.rows = rows;
    this.sort = sort;
    this.all = columns;
    if (source !== this.source) this.scale(rows, columns);
    this.source = source;
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.fit();
    this.body.style.height = `${rows.length * ROW}px`;
    this.draw();
  }

  // Chooses the columns that fit.
  private fit(): void {
    this.columns = fitting(this.all, this.sort, this.element.clientWidth);
    const isNarrow = this.columns.length < this.all.length;
    this.element.style.setProperty("--columns", `minmax(${isNarrow ? 110 : 220}px, 3fr) ` +
      this.columns.map(({ width }) => (isNarrow ? `${COLUMN_PX}px` : width)).join(" "));
    if (this.all.length > 0) this.showHead(this.sort);
    this.handlers.onFit(isNarrow);
  }

  private scale(rows: readonly Row[], columns: readonly Column[]): void {
    this.axis = axisOf(rows.map(({ site }) => site.lifetime));
    this.largest = new Map(columns.filter(({ bar }) => bar).map((column) => [column.key, largestOf(rows, column)]));
    // Columns to compare side by side share one scale.
    const sides = Math.max(this.largest.get("base") ?? 0, this.largest.get("other") ?? 0);
    for (const key of ["base", "other"]) if (this.largest.has(key)) this.largest.set(key, sides);
  }

  // Rebuilds the head only for other columns, which is faster and keeps the focus.
  private showHead(sort: string): void {
    const heads = [{ key: "name", label: "Site", title: "By the alphabet" }, ...this.columns];
    const made = heads.map(({ key, label }) => `${key} ${label}`).join("\n");
    if (made !== this.headOf) {
      this.headOf = made;
      this.head.replaceChildren(...heads.map(({ key, label, title }) => make("div",
        { role: "columnheader", className: key === "name" ? "text" : "" },
        button(label, () => this.handlers.onSort(key), { title, "data-sort": key }))));
    }
    heads.forEach(({ key }, i) => this.head.children[i].setAttribute("aria-sort",
      key !== sort ? "none" : key === "name" ? "ascending" : "descending"));
  }

  private soon(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((top + this.element.clientHeight) / ROW) + BEYOND);
    const elements: HTMLElement[] = [];
    for (let i = first; i < last; ++i) elements.push(this.rowElement(this.rows[i], i));
    this.body.replaceChildren(...elements);
    const current = this.indexOfCurrent();
    if (current >= 0) this.element.setAttribute("aria-activedescendant", `site-row-${current}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private rowElement(row: Row, index: number): HTMLElement {
    const { name, where } = this.handlers.nameOf(row);
    const element = make("div", { role: "row", id: `site-row-${index}`, className: "sites-row",
      "aria-rowindex": String(index + 2), "aria-selected": String(row.id === this.current), "data-index": String(index) },
      make("div", { role: "gridcell", className: "site-name", title: where === "" ? name : `${name}\n${where}` },
        make("span", { className: "name" }, make("bdi", { dir: "ltr" }, name)), make("span", { className: "where" }, make("bdi", { dir: "ltr" }, where))),
      ...this.columns.map((column) => this.cell(column, row)));
    element.style.transform = `translateY(${index * ROW}px)`;
    return element;
  }

  private cell(column: Column, row: Row): HTMLElement {
    const cell = make("div", { role: "gridcell", "data-column": column.key, title: column.limits?.(row) ?? "" },
      make("span", { className: "value" }, column.text(row)));
    if (column.bar) cell.append(this.bar(column, row));
    if (column.histogram) cell.append(sparkline(row.site.lifetime, this.axis, 112, 15));
    return cell;
  }

  // A bar with a whisker of one standard error to each side.
  private bar(column: Column, row: Row): HTMLElement {
    const largest = this.largest.get(column.key) ?? 0;
    const [value, error] = [column.value(row), column.error?.(row) ?? 0];
    const isSigned = column.bar === "signed";
    const place = (at: number) => {
      const part = largest > 0 ? at / largest : 0;
      return 100 * Math.min(1, Math.max(0, isSigned ? 0.5 + part / 2 : part));
    };
    const [from, to] = [Math.min(place(0), place(value)), Math.max(place(0), place(value))];
    const bar = make("i", { className: isSigned ? (value < 0 ? "bar signed less" : "bar signed more") : "bar",
      "aria-hidden": "true" });
    const percent = (at: number) => `${at.toFixed(2)}%`;
    bar.append(make("u", { style: `left:${percent(from)};width:${percent(to - from)}` }));
    if (error > 0) {
      const [low, high] = [place(value - error), place(value + error)];
      bar.append(make("b", { style: `left:${percent(low)};width:max(1px,${percent(high - low)})` }));
    }
    return bar;
  }

  // ------------------------------------------------------------ input

  private indexOfCurrent(): number {
    return this.current === "" ? -1 : this.rows.findIndex(({ id }) => id === this.current);
  }
  private rowOf(event: Event): Row | undefined {
    const element = (event.target as Element).closest<HTMLElement>(".sites-row");
    return element === null ? undefined : this.rows[Number(element.dataset["index"])];
  }
  private click(event: MouseEvent): void {
    const row = this.rowOf(event);
    if (row === undefined) return;
    this.current = row.id;
    this.handlers.onOpen(row);
  }
  private menu(event: MouseEvent): void {
    const index = this.indexOfCurrent();
    const row = this.rowOf(event) ?? this.rows[index];
    if (row === undefined) return;
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    const isByKey = event.button !== 2;
    this.handlers.onMenu(row, isByKey ? { x: box.left + 24, y: box.top + ROW * (index + 2) - this.element.scrollTop }
      : { x: event.clientX, y: event.clientY });
  }
  private key(event: KeyboardEvent): void {
    if (event.target !== this.element || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = this.indexOfCurrent();
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page,
      PageUp: at - page, Home: 0, End: this.rows.length - 1 };
    if (event.key === "Enter" && at >= 0) this.handlers.onOpen(this.rows[at]);
    else if (event.key in steps) this.moveTo(steps[event.key]);
    else return;
    event.preventDefault();
  }
  private moveTo(index: number): void {
    const at = Math.min(this.rows.length - 1, Math.max(0, index));
    if (at < 0) return;
    this.current = this.rows[at].id;
    const { scrollTop, clientHeight } = this.element;
    const head = this.head.offsetHeight;
    if (at * ROW < scrollTop) this.element.scrollTop = at * ROW;
    else if ((at + 1) * ROW + head > scrollTop + clientHeight) this.element.scrollTop = (at + 1) * ROW + head - clientHeight;
    this.draw();
  }
}

function largestOf(rows: readonly Row[], column: Column): number {
  let largest = 0;
  for (const row of rows) {
    largest = Math.max(largest, Math.abs(column.value(row)) + (column.error?.(row) ?? 0));
  }
  return largest;
}
