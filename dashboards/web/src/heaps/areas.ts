// SPDX-License-Identifier: Apache-2.0
// Content of stored snapshots by type or shape: areas over time, and a table of the first and the last.
import type { App } from "../app";
import { Api, msOf, type Censuses, type HeapCount } from "../lib/api";
import { clock } from "../lib/axis";
import { draw, make } from "../lib/dom";
import { bytes, change, count, share } from "../lib/format";
import { paletteOf, type Palette } from "../lib/palette";
import { typesText } from "../lib/heap_types";
import type { View } from "../lib/state";

// Size of the drawing, which is then scaled to the available width.
const WIDTH = 1000, HEIGHT = 100;
const SOON_MS = 2000, LATE_MS = 60_000;

interface Area { name: string; slot: number; values: number[]; blocks: number[] }

const sizes = (counts: readonly HeapCount[]): number[] => counts.map((one) => Number(one.bytes));
const numbers = (counts: readonly HeapCount[]): number[] => counts.map((one) => Number(one.blocks));

// From the bottom up; the rest comes last.
function areasOf({ classes, other }: Censuses): Area[] {
  const areas = classes.map(({ name, counts }, slot) => ({ name, slot, values: sizes(counts), blocks: numbers(counts) }));
  return [...areas, { name: "other", slot: -1, values: sizes(other), blocks: numbers(other) }];
}

export class HeapAreas {
  readonly element = make("div", { className: "areas", hidden: true });
  private readonly api = new Api();
  private answer: Censuses | undefined;
  private asked = "";
  private drawn = "";
  // Time and delay of the next request while some snapshots are not counted yet, or none was answered. The delay
  // doubles each time.
  private next = 0;
  private pause = SOON_MS;

  constructor(private readonly app: App) {}

  update(view: View): void {
    const question = `${view.pid} ${(this.app.heaps ?? []).map(({ name }) => name).join(",")}`;
    const isWhole = this.answer !== undefined && Number(this.answer.uncounted) === 0;
    if (question !== this.asked || (!isWhole && performance.now() >= this.next)) void this.ask(view.pid, question);
    this.draw();
  }

  destroy(): void {
    this.api.abort();
  }

  private async ask(pid: number, question: string): Promise<void> {
    const isNew = question !== this.asked;
    if (isNew) this.answer = undefined;
    this.asked = question;
    this.pause = isNew ? SOON_MS : Math.min(LATE_MS, 2 * this.pause);
    this.next = performance.now() + this.pause;
    if (!this.app.heaps?.length) return;
    try {
      const answer = await this.api.censuses(pid);
      if (question === this.asked) this.answer = answer;
    } catch (error) {
      this.app.fail(error);
    }
    this.draw();
  }

  private draw(): void {
    const { answer } = this, dark = this.app.isDark();
    const drawn = JSON.stringify([this.asked, answer?.heaps.length, answer?.uncounted, dark]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.element.hidden = !answer?.heaps.length;
    if (!answer?.heaps.length) return;
    const areas = areasOf(answer), palette = paletteOf(dark), left = Number(answer.uncounted);
    this.element.replaceChildren(
      make("h3", {}, "Reachable memory in them, by type or shape"),
      ...(answer.heaps.length > 1 ? [chart(answer, areas, palette)] : []),
      table(answer, areas, palette),
      make("p", { className: "muted types" }, `At ${clock(msOf(answer.heaps.at(-1)!.unix_ns))}: ${typesText(answer.types.at(-1))}`),
      ...(left > 0 ? [make("p", { className: "muted" }, `${count(left)} more are too large to be counted automatically, or not counted yet.`)] : []));
  }
}

function chart({ heaps }: Censuses, areas: readonly Area[], palette: Palette): HTMLElement {
  const times = heaps.map(({ unix_ns }) => msOf(unix_ns)), first = times[0]!, last = times.at(-1)!;
  const sums = times.map((_, i) => areas.reduce((sum, { values }) => sum + values[i]!, 0));
  const top = Math.max(1, ...sums);
  const x = (i: number): number => (last > first ? ((times[i]! - first) / (last - first)) * WIDTH : (i / (times.length - 1)) * WIDTH);
  const point = (i: number, value: number): string => `${x(i).toFixed(1)},${(HEIGHT * (1 - value / top)).toFixed(2)}`;
  const drawing = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Reachable memory of ${heaps.length} snapshots by type or shape` });
  let below = times.map(() => 0);
  for (const { name, slot, values } of areas) {
    const above = below.map((value, i) => value + values[i]!);
    const points = [...above.map((value, i) => point(i, value)), ...below.map((value, i) => point(i, value)).reverse()];
    drawing.append(draw("polygon", { points: points.join(" "), fill: palette.area(slot), "data-class": name }, draw("title", {}, name)));
    below = above;
  }
  for (const i of times.keys()) drawing.append(draw("line", { x1: x(i), x2: x(i), y1: 0, y2: HEIGHT, stroke: palette.grid, "stroke-opacity": 0.5 }));
  return make("div", { className: "areas-chart" }, make("span", { className: "muted" }, bytes(top)), drawing,
    make("div", { className: "times muted" }, make("span", {}, clock(first)), make("span", {}, clock(last))));
}

function table({ heaps }: Censuses, areas: readonly Area[], palette: Palette): HTMLElement {
  const isOne = heaps.length === 1, at = heaps.length - 1;
  const all = areas.reduce((sum, { values }) => sum + values[at]!, 0);
  const heads = ["Bytes", "Share", "Blocks", ...(isOne ? [] : ["Change", "In blocks"]), "Type or shape"];
  const row = ({ name, slot, values, blocks }: Area): HTMLElement => {
    const swatch = make("i");
    swatch.style.background = palette.area(slot);
    const grown = blocks[at]! - blocks[0]!;
    const cells = [bytes(values[at]!), share(values[at]!, all), count(blocks[at]!),
      ...(isOne ? [] : [change(values[at]! - values[0]!, 0), `${grown > 0 ? "+" : grown < 0 ? "−" : ""}${count(Math.abs(grown))}`])];
    return make("tr", {}, ...cells.map((cell) => make("td", { className: "number" }, cell)), make("td", {}, swatch, name));
  };
  return make("table", { "data-table": "census" },
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...areas.filter(({ values }) => values.some((value) => value > 0)).map(row)));
}
