// SPDX-License-Identifier: Apache-2.0
// The tab for one function: its callers, its allocations, and its callees.
import type { App, Panel } from "../app";
import { frameMenu } from "../flame/frame_menu";
import { openMenu } from "../flame/menu";
import { Api, isAbort, selectionParams, type CallersAnswer, type Estimate, type Site } from "../lib/api";
import { breakable, button, make } from "../lib/dom";
import * as format from "../lib/format";
import { estimateOf, NO_ESTIMATE } from "../lib/names";
import { searchOf, type View } from "../lib/state";
import { escapeRegExp } from "../lib/text";
import { Completion } from "../search/completion";
import { isRegExp, suggestedPattern, Suggestions } from "../search/search";
import "./sites.css";

const LIMIT = 50;
const MIN_AGE_MS = 3000;

// The function shown: the one chosen in this tab, else the search.
const functionOf = (view: View): string => view.extra["callers.of"] ?? searchOf(view);

const shareOf = (part: Estimate, whole: Estimate): string =>
  format.shareEstimate(part.bytes, part.bytes_stderr, whole.bytes, whole.bytes_stderr);

class CallersPanel implements Panel {
  private readonly api = new Api();
  private readonly input = make("input", { type: "search", className: "field", spellcheck: false,
    placeholder: "Function (regular expression)", "aria-label": "Function whose callers and callees are shown" });
  private readonly note = make("output", { className: "muted" });
  private readonly parts = make("div", { className: "callers-parts" });
  private asked = "";
  private askedMs = 0;

  constructor(private readonly container: HTMLElement, private readonly app: App) {
    const suggestions = new Suggestions(app);
    const box = make("div", { className: "search" }, this.input);
    const completion = new Completion(this.input, {
      suggest: (typed) => suggestions.suggest(typed, ["function", "module"]),
      onPick: (picked) => {
        this.input.value = suggestedPattern(picked);
        this.showCallers(this.input.value);
      },
      onOpen: () => void suggestions.load().then(() => completion.refresh()),
    });
    this.input.addEventListener("change", () => this.showCallers(this.input.value.trim()));
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.showCallers(this.input.value.trim());
    });
    container.append(make("div", { className: "callers-head" }, box, this.note), this.parts);
  }

  destroy(): void {
    this.api.abort();
    this.container.replaceChildren();
  }

  private showCallers(pattern: string): void {
    const isValid = isRegExp(pattern);
    this.input.setAttribute("aria-invalid", String(!isValid));
    if (isValid && pattern !== functionOf(this.app.store.get())) this.app.store.setExtra("callers.of", pattern, true);
  }

  update(view: View): void {
    if (view.tab !== "callers" || view.pid === 0) return;
    const name = functionOf(view);
    if (document.activeElement !== this.input) this.input.value = name;
    if (name === "") {
      this.asked = "";
      this.parts.replaceChildren();
      this.note.textContent = "Select a function to see its callers and callees.";
      return;
    }
    const asked = JSON.stringify([view.pid, view.begin, view.live ? "now" : view.end, view.filter, view.measure, name]);
    const isOld = view.live && performance.now() - this.askedMs > MIN_AGE_MS;
    if (asked !== this.asked || isOld) void this.ask(view, name, asked);
  }

  private async ask(view: View, name: string, asked: string): Promise<void> {
    this.asked = asked;
    this.askedMs = performance.now();
    try {
      const answer = await this.api.callers({ ...selectionParams(view, "selection."), function: name,
        order: view.measure, limit: LIMIT });
      this.show(answer, view, name);
    } catch (error) {
      if (!isAbort(error)) this.note.textContent = (error as Error).message;
    }
  }

  private show({ self, total, callers, callees }: CallersAnswer, view: View, name: string): void {
    const whole = of(total, view);
    this.note.textContent = Number(total?.samples ?? 0) === 0 && whole.bytes === 0
      ? `No callstack with a function that matches ${name}.` : "";
    const exact = /^\^(.*)\$$/.exec(name)?.[1]?.replace(/\\(.)/g, "$1") ?? name;
    this.parts.replaceChildren(
      make("div", { className: "card" }, make("h3", {}, "Callers"), this.list(callers, view, whole, "No caller: it is the outermost frame.")),
      make("div", { className: "card of" }, make("h3", {}, exact), this.numbers(self, total, view)),
      make("div", { className: "card" }, make("h3", {}, "Callees"), this.list(callees, view, whole, "It calls nothing that allocates.")));
  }

  private numbers(self: Site, total: Site, view: View): HTMLElement {
    const list = make("dl");
    const words = ({ bytes, bytes_stderr: error, samples }: Estimate) =>
      `${format.estimate(bytes, error)} in ${format.count(Number(samples))} samples`;
    for (const [label, site] of [["With all it calls", total], ["Itself", self]] as const) {
      const estimate = of(site, view);
      list.append(make("dt", {}, label),
        make("dd", { title: format.interval(estimate.bytes_lower, estimate.bytes_upper) }, words(estimate)));
    }
    list.append(make("dt", {}, "Its own share"), make("dd", {}, shareOf(of(self, view), of(total, view))));
    return list;
  }

  private list(sites: Site[] | undefined, view: View, whole: Estimate, nobody: string): HTMLElement {
    const known = (sites ?? []).filter((site) => of(site, view).bytes > 0);
    if (known.length === 0) return make("p", { className: "muted" }, nobody);
    return make("ul", {}, ...known.map((site) => this.item(site, view, whole)));
  }
  private item(site: Site, view: View, whole: Estimate): HTMLElement {
    const estimate = of(site, view), { bytes, bytes_stderr: error } = estimate;
    const percent = (value: number) => `${(100 * Math.min(1, Math.max(0, value / whole.bytes))).toFixed(2)}%`;
    const name = site.function || "(unknown)";
    const bar = make("i", { style: `width: ${percent(bytes)}` });
    const whisker = make("b", { style: `left: ${percent(bytes - error)}; right: calc(100% - ${percent(bytes + error)})` });
    const opener = button("", () => this.showCallers(`^${escapeRegExp(name)}$`), { title: site.file });
    opener.append(...breakable(name));
    const item = make("li", {}, make("div", { className: "line" },
      opener,
      make("span", { className: "value", title: format.interval(estimate.bytes_lower, estimate.bytes_upper) },
        `${format.estimate(bytes, error)}  (${shareOf(estimate, whole)})`)),
      make("span", { className: "track", "aria-hidden": "true" }, bar, whisker));
    item.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      openMenu(frameMenu(this.app, name), { x: event.clientX, y: event.clientY }, name);
    });
    return item;
  }
}

const of = (site: Site | undefined, { measure }: View): Estimate => estimateOf(site, measure) ?? NO_ESTIMATE;

export const mountCallers = (container: HTMLElement, app: App): Panel => new CallersPanel(container, app);
