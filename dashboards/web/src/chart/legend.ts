// SPDX-License-Identifier: Apache-2.0
// The list beside a chart: names of the areas, values at one moment, and links to drill down.
import { clock } from "../lib/axis";
import { breakable, button, make } from "../lib/dom";
import { bytes, count, estimate, interval } from "../lib/format";
import { groupPlural, unitOf, type Measure } from "../lib/names";
import type { Palette } from "../lib/palette";
import { rightAxis } from "./area_chart";
import { totalAt, type Area, type Stack } from "./stack";

export interface LegendShown {
  stack: Stack;
  measure: Measure;
  index: number; // the moment whose values are shown
  pointed: Area | null;
  palette: Palette;
  lines: boolean;
}

interface Row {
  element: HTMLElement;
  number: HTMLElement;
  area: Area;
}

const upper = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

export class Legend {
  readonly element = make("div", { className: "chart-legend" });
  private readonly head = make("p", { className: "chart-legend-head" });
  private readonly list = make("ol");
  private readonly facts = make("dl");
  private readonly stack = make("ol", { className: "frames", hidden: true });
  private rows: Row[] = [];
  private built = "";

  constructor(private readonly open: (area: Area) => void) {
    this.element.append(this.head, this.list, this.facts, this.stack);
  }

  show(shown: LegendShown): void {
    const { stack, palette } = shown;
    const built = JSON.stringify([stack.by, stack.areas.map(({ key, slot }) => [key, slot]), palette.other]);
    if (built !== this.built) this.build(stack, palette);
    this.built = built;
    this.update(shown);
  }

  // Largest first, like the areas of the chart from the top.
  private build(stack: Stack, palette: Palette): void {
    this.rows = [...stack.areas].reverse().map((area) => {
      const swatch = make("i", { className: "swatch" });
      swatch.style.background = palette.area(area.slot);
      const name = make("span", { className: "name" }, make("bdi", {}, ...breakable(area.label)));
      const number = make("span", { className: "number" });
      const element = area.site
        ? button("", () => this.open(area), { title: `${area.key}\nClick to split it` })
        : make("div", { title: "all others together" });
      element.replaceChildren(swatch, name, number);
      return { element, number, area };
    });
    this.list.replaceChildren(...this.rows.map(({ element }) => make("li", {}, element)));
    this.stack.hidden = true;
  }

  private update({ stack, measure, index, pointed, lines }: LegendShown): void {
    const time = stack.times[index];
    const areas = new Map(stack.areas.map((area) => [area.key, area]));
    for (const { element, number, area } of this.rows) {
      const now = areas.get(area.key) ?? area;
      number.textContent = estimate(now.values[index] ?? 0, now.errors[index] ?? 0) + unitOf(measure);
      number.title = interval(now.lowers[index] ?? 0, now.uppers[index] ?? 0) + unitOf(measure);
      element.classList.toggle("pointed", pointed?.key === area.key);
    }
    this.head.textContent = time === undefined ? "" : `${upper(groupPlural(stack.by))} at ${clock(time * 1000)}`;
    this.facts.replaceChildren(...(time === undefined ? [] : factsOf(stack, measure, index, lines)));
  }

  // Shows the frames of the callstack of an area.
  showFrames(area: Area): void {
    const frames = area.site?.callstack ?? [];
    this.stack.hidden = frames.length === 0;
    this.stack.replaceChildren(...frames.map((at) => make("li", {}, at.function,
      make("span", { className: "muted" }, at.file === "" ? "" : ` ${at.file}:${at.line}`))));
    this.stack.scrollIntoView({ block: "nearest" });
  }
}

function factsOf(stack: Stack, measure: Measure, index: number, lines: boolean): HTMLElement[] {
  const moment = stack.moments[index]!, total = totalAt(stack, index);
  const facts: [string, string][] = [["sum", estimate(total.value, total.error) + unitOf(measure)]];
  const right = rightAxis(stack, measure), side = (isRight: boolean): string => (isRight ? ", right axis" : "");
  if (lines) {
    facts.push([`heap${side(right.heap)}`, moment.heap === null ? "not read yet" : bytes(moment.heap)],
      [`live, all${side(right.live)}`, bytes(moment.live)]);
  }
  if (moment.seconds > 0 && index > 0) {
    facts.push(["collections", `${(moment.minor / moment.seconds).toFixed(1)}/s minor, ${count(moment.major)} major`]);
  }
  const restarts = stack.moments.filter(({ anew }) => anew).length;
  if (restarts > 0) facts.push(["restarts of sampling", moment.anew ? "here live restarts at zero" : count(restarts)]);
  if (moment.compactions > 0) facts.push(["compactions", count(moment.compactions)]);
  if (moment.dropped > 0) facts.push(["lost", `${count(moment.dropped)} events`]);
  return facts.map(([name, value]) => make("div", {}, make("dt", { className: name.replace(/\W.*/, "") }, name), make("dd", {}, value)));
}
