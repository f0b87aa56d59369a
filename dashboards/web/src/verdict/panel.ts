// SPDX-License-Identifier: Apache-2.0
// The verdict below the list of programs: whether the view's program leaks, where, and since when, over all recorded
// time.
import "./verdict.css";
import type { App, Panel } from "../app";
import { openTab } from "../flame/frame_menu";
import { Api, filterParams, isAbort, type LeaksAnswer } from "../lib/api";
import { button, make } from "../lib/dom";
import type { View } from "../lib/state";
import { WhyTree } from "../sites/why";
import { escapeRegExp } from "../lib/text";
import { idOf } from "../sites/rows";
import { verdictOf, type Suspect, type Verdict } from "./verdict";

// Questions about all recorded time are rare, and rarer still if the answer is slow: LOAD is their largest share of
// time.
const AGE_MS = 10_000, LOAD = 0.02;
const SERIES = 20, POINTS = 120;
// As high as most answers, so that the content below does not move.
const LOOKING: Verdict = { kind: "unknown", title: "Searching for leaks …", detail: "Over everything that is recorded.", suspects: [] };
const OBSERVED: Verdict = { kind: "unknown", title: "Whether something leaks is not known in observe mode",
  detail: "Live memory is known only with an agent in the program. Resident memory, below, shows whether the process grows.", suspects: [] };
const HEADS: Record<Verdict["kind"], string> = { leak: "Leak", growth: "Growth", none: "No leak seen", unknown: "Not known" };

export class VerdictPanel implements Panel {
  private readonly leaks = new Api();
  private readonly history = new Api();
  private readonly mark = make("strong", { className: "mark" });
  private readonly title = make("h2", { id: "verdict-title" });
  private readonly detail = make("p", { className: "muted" });
  private readonly list = make("ol");
  private readonly why: WhyTree;
  private shown: Verdict | null = null;
  private pid = 0;  // the process shown
  private next = 0;  // time of the next request

  constructor(private readonly container: HTMLElement, private readonly app: App) {
    this.why = new WhyTree(app);
    container.hidden = true;
    container.append(make("div", { className: "card" }, make("header", {}, this.mark, this.title), this.detail, this.list, this.why.element));
  }

  update(view: View): void {
    if (view.pid !== this.pid) {
      this.pid = view.pid;
      this.next = 0;
      this.shown = null;
      this.why.element.replaceChildren();
    }
    const target = this.app.target();
    this.container.hidden = !target;
    if (!target) return;
    if (this.shown === null) this.put(LOOKING);
    if (target.mode === "observe") this.show(OBSERVED);
    else if (performance.now() >= this.next) void this.ask(view.pid);
  }

  destroy(): void {
    this.leaks.abort();
    this.history.abort();
  }

  // For scripts.
  describe(): Verdict | null {
    return this.shown;
  }

  private async ask(pid: number): Promise<void> {
    const began = performance.now();
    this.next = Infinity;  // prevents a second request while this one runs
    try {
      // The verdict covers the whole program, so it ignores the filter.
      const selection = { "selection.pid": pid, ...filterParams({ filter: {} }, "selection.") };
      const [answer, history] = await Promise.all([this.leaks.leaks({ ...selection, group_by: "site", limit: 0, roll_up: true }),
        this.history.history({ ...selection, measure: "live", group_by: "site", limit: SERIES, points: POINTS })]);
      if (pid === this.pid) this.show(verdictOf(answer as LeaksAnswer, history));
    } catch (error) {
      if (!isAbort(error) && pid === this.pid) this.show({ kind: "unknown", title: "Whether something leaks is not known", detail: (error as Error).message, suspects: [] });
    }
    if (pid === this.pid) this.next = this.app.runs(pid) ? began + Math.max(AGE_MS, (performance.now() - began) / LOAD) : Infinity;
  }

  private show(verdict: Verdict): void {
    // Keeps a button that has the focus.
    const isUsed = this.list.contains(document.activeElement) && verdict.kind === this.shown?.kind;
    if (isUsed || JSON.stringify(verdict) === JSON.stringify(this.shown)) return;
    this.shown = verdict;
    this.put(verdict);
  }

  private put(verdict: Verdict): void {
    this.container.dataset["kind"] = verdict.kind;
    this.mark.textContent = HEADS[verdict.kind];
    this.title.textContent = verdict.title;
    this.detail.textContent = verdict.detail;
    this.list.hidden = verdict.suspects.length === 0;
    this.list.replaceChildren(...verdict.suspects.map((suspect) => this.row(suspect)));
  }

  private open(tab: string, extra: Record<string, string>): void {
    openTab(this.app, tab, extra);
    document.getElementById("tabs")!.scrollIntoView({ block: "start" });
  }

  private row(suspect: Suspect): HTMLElement {
    const { leak: { site }, by, name, where, growth, perHour, since, sure } = suspect;
    const exactly = `^${escapeRegExp(site.function)}$`;
    const small = (text: string, act: () => void, title: string) => button(text, act, { className: "button small", title });
    const actions = site.function === "" ? [] : [
      small("What keeps it alive", () => this.why.show(exactly), "A snapshot of the heap names what holds its blocks"),
      small("In the flame graph", () => this.open("flame", { search: exactly }), "The callstacks that allocate it")];
    return make("li", {}, make("span", { className: "site" },
      button(name, () => this.open("sites", { "sites.mode": "growth", "sites.by": by === "site" ? "" : by, "sites.open": idOf(site, by) }), { className: "link", title: "Its numbers, lifetimes and callstacks" }),
      make("span", { className: "muted" }, where)),
      make("span", { className: "numbers" }, make("b", {}, growth), ...[since, perHour, sure].filter((part) => part !== "").flatMap((part) => [", ", make("span", {}, part)])),
      make("span", { className: "actions" }, ...actions));
  }
}

export const mountVerdict = (container: HTMLElement, app: App): VerdictPanel => new VerdictPanel(container, app);
