// SPDX-License-Identifier: Apache-2.0
// The table of published values. It keeps its rows while live, so that a row under the pointer stays.
import type { DurationRange, Reported } from "../lib/api";
import { button, draw, make } from "../lib/dom";
import { duration } from "../lib/format";
import type { Control, Switches } from "./switches";
import { linesOf, textAt, valuesOf, type Line, type Observation } from "./observations";
import { valueText } from "./value_text";

const SPARK = { width: 120, height: 22 };

export interface RowEvents {
  onPlot(id: string): void;
  onGraph(observation: Observation): void;
}

interface Row {
  element: HTMLTableRowElement;
  value: HTMLElement;
  rate: HTMLElement;
  spark: SVGPolylineElement;
  plots: Map<string, HTMLButtonElement>;
  switches: Switches;
}

// Content of the table at a point of the history; isNow: the point is the present.
export interface ShownRows {
  observations: readonly Observation[];
  times: readonly number[];
  index: number;
  isNow: boolean;
  plotted: readonly string[];
  canControl: boolean; // shows switches and graphs
}

// Median and 99th percentile of a timer's intervals.
function limitsOf(now: Reported | undefined): string {
  const limit = (range: DurationRange | undefined): string => {
    const high = Number(range?.high_seconds); // "Infinity" for an open bucket
    return Number.isFinite(high) ? duration(high) : `over ${duration(range?.low_seconds ?? 0)}`;
  };
  return now?.durations ? `; 50 % within ${limit(now.durations.p50)}, 99 % ${limit(now.durations.p99)}` : "";
}

function wordsOf(observation: Observation, index: number, isNow: boolean): string {
  const { now } = observation;
  if (isNow && now?.is_off) return "(off)";
  const isValue = observation.kind === "value" || observation.kind === "tag";
  const current = isNow && now?.value && isValue && !now.is_bool ? valueText(now.value) : "";
  const unit = observation.unit === "" || current === "" ? "" : ` ${observation.unit}`;
  const text = current === "" ? textAt(observation, index) + (isNow ? limitsOf(now) : "") : current + unit;
  const age = isNow && now && now.age_seconds > 10 ? `, ${duration(now.age_seconds)} old` : "";
  return text === "" ? "–" : text + age;
}

export class Rows {
  readonly element: HTMLElement;
  private readonly body = make("tbody");
  private readonly rows = new Map<string, Row>();

  constructor(private readonly events: RowEvents, private readonly control: Control) {
    const heads = ["Name", "Is", "Value", "Rate", "Over the time shown", "Plot"];
    this.element = make("table", { className: "value-rows" }, make("thead", {}, make("tr", {},
      ...heads.map((text) => make("th", { scope: "col" }, text)))), this.body);
  }

  show(shown: ShownRows): void {
    const ids = new Set(shown.observations.map(({ id }) => id));
    for (const [id, { element }] of this.rows) {
      if (ids.has(id)) continue;
      element.remove();
      this.rows.delete(id);
    }
    for (const observation of shown.observations) this.showRow(observation, shown);
  }

  // For scripts.
  describe(): object[] {
    return [...this.rows.values()].map(({ element, value, rate }) => ({
      name: element.cells[0]!.textContent, kind: element.cells[1]!.textContent, value: value.textContent, rate: rate.textContent }));
  }

  private showRow(observation: Observation, { times, index, isNow, plotted, canControl }: ShownRows): void {
    const lines = linesOf(observation), row = this.rows.get(observation.id) ?? this.add(observation);
    row.value.textContent = wordsOf(observation, index, isNow);
    const [first] = lines, values = first ? valuesOf(first, times).lasts : [];
    row.rate.textContent = first?.isRate && Number.isFinite(values[index]) ? first.shown(values[index]!) : "";
    row.spark.setAttribute("points", sparkOf(values.slice(0, index + 1), times));
    this.showPlots(row, lines, plotted);
    row.switches.show(observation, canControl && isNow);
    const graph = row.element.querySelector<HTMLButtonElement>("button.graph")!;
    graph.hidden = !canControl || observation.kind !== "value" || observation.now?.value === undefined || observation.now.value.kind === "VALUE_KIND_INTEGER";
  }

  private showPlots(row: Row, lines: readonly Line[], plotted: readonly string[]): void {
    for (const line of lines) {
      let toggle = row.plots.get(line.id);
      if (!toggle) {
        toggle = button(line.label, () => this.events.onPlot(line.id), { className: "button small", title: `Plot ${line.title}` });
        row.plots.set(line.id, toggle);
        row.element.cells[5]!.append(toggle);
      }
      toggle.setAttribute("aria-pressed", String(plotted.includes(line.id)));
    }
  }

  private add(observation: Observation): Row {
    const cell = (...children: (Node | string)[]) => make("td", {}, ...children);
    const spark = draw("polyline", {}), svg = draw("svg", { ...SPARK, "aria-hidden": "true" }, spark);
    const value = make("span"), rate = cell(), switches = this.control.switches(observation);
    const graph = button("Graph", () => this.events.onGraph(observation), { className: "button small graph", title: "The value with everything that it reaches" });
    const element = make("tr", { "data-id": observation.id }, make("td", { className: "name" }, observation.name), cell(observation.kind),
      make("td", { className: "value" }, value, " ", graph, " ", switches.element), rate, cell(svg), cell());
    this.body.append(element);
    const row = { element, value, rate, spark, switches, plots: new Map() };
    this.rows.set(observation.id, row);
    return row;
  }
}

// Points of a sparkline, "x,y x,y ..", scaled from the least to the largest known value.
function sparkOf(values: readonly number[], times: readonly number[]): string {
  const known = values.filter(Number.isFinite);
  if (known.length < 2) return "";
  const least = Math.min(...known), most = Math.max(...known), begin = times[0]!, span = times.at(-1)! - begin || 1;
  return values.flatMap((value, i) => (Number.isFinite(value) ? [`${((times[i]! - begin) / span * SPARK.width).toFixed(1)},` +
    `${(SPARK.height - 2 - (SPARK.height - 4) * (most > least ? (value - least) / (most - least) : 0.5)).toFixed(1)}`] : [])).join(" ");
}
