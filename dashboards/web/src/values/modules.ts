// SPDX-License-Identifier: Apache-2.0
// Values of a program's modules, read on request.
import type { App } from "../app";
import { Api, type NamedValue } from "../lib/api";
import { button, make } from "../lib/dom";
import { count } from "../lib/format";
import { CONTROL_OFF } from "../lib/pause";
import { valueText } from "./value_text";

const LIMIT = 200;

export class Modules {
  readonly element: HTMLElement;
  private readonly form: HTMLFormElement;
  private readonly off = make("p", { className: "muted" }, `${CONTROL_OFF} to read what the program's modules hold, or use memprofctl values.`);
  private readonly api = new Api();
  private readonly pattern = make("input", { type: "search", className: "field", placeholder: "Module, such as Cache", "aria-label": "Names of modules, RE2" });
  private readonly status = make("span", { className: "muted" });
  private readonly body = make("tbody");
  private readonly table = make("table", { className: "value-modules", hidden: true }, this.body);

  constructor(private readonly app: App, private readonly onGraph: (value: NamedValue) => void,
    private readonly onKeep: (value: NamedValue) => void) {
    this.form = make("form", { className: "modules-head" }, make("h3", {}, "Modules"), this.pattern,
      make("button", { type: "submit", className: "button", title: "What modules hold now: references, tables, queues" }, "Read"), this.status);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.read();
    });
    this.element = make("section", { className: "modules", "aria-label": "Module values" }, this.form, this.off, this.table);
  }

  update(): void {
    this.element.hidden = !this.app.runs();
    this.form.hidden = !this.app.server.control;
    this.off.hidden = this.app.server.control;
  }
  clear(): void {
    this.table.hidden = true;
    this.status.textContent = "";
  }

  private async read(): Promise<void> {
    const { pid } = this.app.store.get();
    this.status.textContent = "Reading …";
    try {
      const { values, fields, left_out: more } = await this.api.values({ pid, pattern: this.pattern.value, limit: LIMIT });
      if (pid !== this.app.store.get().pid) return;
      this.body.replaceChildren(...values.map((value) => this.row(value)));
      this.table.hidden = values.length === 0;
      this.status.textContent = `${count(values.length)} of ${count(Number(fields))} names` + (Number(more) > 0 ? `; ${count(Number(more))} more` : "");
    } catch (error) {
      this.status.textContent = (error as Error).message;
    }
  }

  private row(named: NamedValue): HTMLElement {
    const words = named.value ? valueText(named.value) : "";
    return make("tr", {}, make("td", { className: "name", title: named.source_type }, named.source_name || named.name), make("td", {}, words, " ",
      button("Graph", () => this.onGraph(named), { className: "button small", "aria-label": `${named.name} as a graph` }), " ",
      button("Keep", () => this.onKeep(named), { className: "button small keep", title: "Records its numbers over time",
        "aria-label": `Keep ${named.name} over time` })));
  }
}
