// SPDX-License-Identifier: Apache-2.0
// A table with numbers first and the name last, like memprofctl's.
import { make } from "./dom";
import { count } from "./format";

export function table(name: string, heads: readonly string[], rows: readonly (readonly string[])[], more: number): HTMLElement {
  const row = (cells: readonly string[]): HTMLElement =>
    make("tr", {}, ...cells.map((cell, i) => make("td", i < cells.length - 1 ? { className: "number" } : {}, cell)));
  return make("table", { "data-table": name },
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map(row)),
    ...(more > 0 ? [make("tfoot", {}, make("tr", {}, make("td", { colSpan: heads.length, className: "muted" }, `… ${count(more)} more`)))] : []));
}
