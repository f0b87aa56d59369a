// SPDX-License-Identifier: Apache-2.0
// Details of one row: its numbers, its lifetimes, and its callstacks.
import type { App } from "../app";
import { frameMenu, openTab } from "../flame/frame_menu";
import { Api, isAbort, selectionParams, type Location, type Site } from "../lib/api";
import { button, make } from "../lib/dom";
import * as format from "../lib/format";
import { estimateOf, isCallstack, measureLabel, measures, NO_ESTIMATE, numberFilter, patternOf, unitOf, type GroupBy } from "../lib/names";
import type { View } from "../lib/state";
import { escapeRegExp } from "../lib/text";
import { histogram } from "./histogram";
import { isKnown, quantilesText } from "./lifetime";
import { nameOf, type Row, type Rows } from "./rows";
import { WhyTree } from "./why";

const ASKED = 60;
const STACKS = 6;

export class Detail {
  readonly element = make("section", { className: "site-detail card", "aria-label": "Details", hidden: true });
  private readonly api = new Api();
  private readonly stacks = make("div", { className: "stacks" });
  private readonly numbers = make("div");
  private readonly lifetime = make("div");
  private readonly why: WhyTree;
  private shown = "";  // id of the row
  private asked = "";  // row and view whose callstacks are shown

  constructor(private readonly app: App, private readonly onClose: () => void) {
    this.why = new WhyTree(app);
  }

  destroy(): void {
    this.api.abort();
    this.element.remove();
  }

  // row is null if none is opened, or it is missing in the answer.
  show(row: Row | null, answer: Rows, view: View): void {
    this.element.hidden = row === null;
    if (row === null) {
      this.asked = this.shown = "";
      return;
    }
    if (this.shown !== row.id) this.showHead(row, answer);
    this.shown = row.id;
    const { lifetime } = row.site;
    this.numbers.replaceChildren(numbers(row));
    this.lifetime.replaceChildren(lifetime !== undefined && Number(lifetime.samples) > 0 ? histogram(lifetime)
      : make("p", { className: "muted" }, "None of it died in this range."));
    void this.loadStacks(row, answer, view);
  }

  // The part that stays while numbers change, so that it keeps the focus.
  private showHead(row: Row, answer: Rows): void {
    const { name, where } = nameOf(row.site, answer.groupBy);
    const part = (title: string, content: HTMLElement) => make("div", {}, make("h4", {}, title), content);
    this.element.replaceChildren(
      make("header", {}, make("h3", {}, name),
        make("span", { className: "where" }, isCallstack(answer.groupBy) ? "" : where),
        make("span", { className: "space" }), ...this.actions(row.site),
        button("×", this.onClose, { className: "button", "aria-label": "Close the details", title: "Close (Esc)" })),
      make("div", { className: "parts" }, part("Numbers", this.numbers),
        part("Lifetime of what died", this.lifetime), part("Callstacks", this.stacks),
        ...(row.site.function === "" ? [] : [part("What keeps it alive now", this.why.element)])));
    if (row.site.function !== "") this.why.offer(`^${escapeRegExp(row.site.function)}$`);
  }

  private actions(site: Site): HTMLElement[] {
    if (site.function === "") return [];
    const exactly = `^${escapeRegExp(site.function)}$`;
    return [
      button("Callers", () => openTab(this.app, "callers", { "callers.of": exactly }), { className: "button" }),
      button("In the flame graph", () => openTab(this.app, "flame", { search: exactly }), { className: "button" }),
    ];
  }

  private async loadStacks(row: Row, answer: Rows, view: View): Promise<void> {
    const asked = `${row.id}|${answer.begin}|${answer.end}`;
    if (asked === this.asked) return;
    if (this.asked.split("|")[0] !== row.id) this.stacks.replaceChildren("Loading…");
    this.asked = asked;
    try {
      const { sites, groups } = await this.api.sites({ ...selectionParams(view), group_by: "callstack",
        order: view.measure, limit: ASKED, ...filterOf(row.site, answer.groupBy) });
      const of = sites.filter((site) => isOf(row.site, answer.groupBy, site));
      this.showStacks(of, groups > sites.length ? "more" : of.length > STACKS ? String(of.length) : "", view);
    } catch (error) {
      if (!isAbort(error)) this.stacks.replaceChildren((error as Error).message);
    }
  }

  private showStacks(sites: Site[], more: string, view: View): void {
    const shown = sites.slice(0, STACKS);
    const sum = shown.map((site) => make("details", { open: shown.length === 1 || site === shown[0] },
      make("summary", {}, stackTitle(site, view)),
      make("ol", {}, ...(site.callstack ?? []).map((location) => this.frame(location)))));
    const note = more === "" ? [] : [make("p", { className: "muted" },
      `The ${shown.length} with the most${more === "more" ? "" : ` of ${more}`}; all: group by callstack.`)];
    this.stacks.replaceChildren(...(sum.length > 0 ? sum : [make("p", { className: "muted" }, "None with a sample.")]), ...note);
  }

  private frame({ function: name, file, line }: Location): HTMLElement {
    const place = file === "" ? "" : line > 0 ? `${file}:${line}` : file;
    const callers = frameMenu(this.app, name)[1];
    return make("li", {}, button(name, callers.run, { title: "Callers and callees" }),
      make("span", { className: "where" }, place));
  }
}

// Filter for the callstacks of a row, by pattern or number.
function filterOf(site: Site, by: GroupBy): Record<string, string | string[]> {
  const number = numberFilter(site, by), pattern = patternOf(site, by);
  if (number !== undefined) {
    return Object.fromEntries(Object.entries(number).map(([name, value]) => [`filter.${name}`, value]));
  }
  return pattern === undefined ? {} : { pattern };
}
function isOf(row: Site, by: GroupBy, stack: Site): boolean {
  const leaf = stack.callstack[0];
  const [file, line] = [leaf?.file ?? stack.file, leaf?.line ?? stack.line];
  if (row.library !== "" && row.library !== leaf?.library) return false;
  if (by === "module" && row.module !== "" && patternOf(row, by) === undefined && row.module !== leaf?.library) return false;
  if (row.file !== "" && row.file !== file) return false;
  return row.line === 0 || row.function === "" || row.line === line;
}

function stackTitle(site: Site, { measure }: View): string {
  const { bytes, bytes_stderr: error } = estimateOf(site, measure) ?? NO_ESTIMATE;
  const depth = site.callstack?.length ?? 0;
  return `${format.estimate(bytes, error)} ${measureLabel(measure).toLowerCase()}, ${format.count(depth)} frames`;
}

function numbers({ site, diff, leak }: Row): HTMLElement {
  const list = make("dl");
  const add = (term: string, words: string, title = "") => list.append(make("dt", {}, term), make("dd", { title }, words));
  const of = diff?.other ?? site;
  for (const { name: key, label } of measures()) {
    const { bytes, bytes_stderr: error, samples, bytes_lower: lower, bytes_upper: upper } = estimateOf(of, key) ?? NO_ESTIMATE;
    add(label, `${format.estimate(bytes, error)}${diff ? unitOf(key) : ""} in ${format.count(Number(samples))} samples`,
      format.interval(lower, upper));
  }
  if (diff) add("Change", format.change(diff.change, diff.change_stderr), format.interval(diff.change_lower, diff.change_upper));
  if (leak) {
    add("Growth", format.change(leak.growth_bytes, leak.growth_bytes_stderr),
      format.interval(leak.growth_bytes_lower, leak.growth_bytes_upper));
  }
  if (of.resident) {
    const { bytes, bytes_stderr: error, bytes_lower: lower, bytes_upper: upper } = of.resident;
    add("Resident", `${format.estimate(bytes, error)} of live`, format.interval(lower, upper));
  }
  if (of.live_objects > 0) {
    add("Live blocks", format.countEstimate(of.live_objects, of.live_objects_stderr),
      format.interval(of.live_objects_lower, of.live_objects_upper, format.count));
  }
  const { lifetime } = of;
  if (isKnown(lifetime)) {
    add("Lifetime", quantilesText(lifetime));
    add("Still alive", `${format.share(lifetime.alive_ratio, 1)} of the followed memory`);
  }
  return list;
}
