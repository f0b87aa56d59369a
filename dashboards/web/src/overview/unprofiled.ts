// SPDX-License-Identifier: Apache-2.0
// OCaml programs on this machine that are not profiled, each with the reason. Shows the same as memprofctl targets
// --all.
import "./unprofiled.css";
import type { App } from "../app";
import { Api, type DiscoveredProgram, type TargetsAnswer } from "../lib/api";
import { button, make } from "../lib/dom";
import { count } from "../lib/format";
import type { Control } from "./control";

// memprofd searches for programs every few seconds.
const AGE_MS = 6000;
const OPEN = "overview.unprofiled";
type Outcome = DiscoveredProgram["outcome"];
// Outcomes of programs that the main list shows.
const LISTED: readonly Outcome[] = ["DISCOVERY_OUTCOME_PROFILED", "DISCOVERY_OUTCOME_OBSERVED"];
// Outcomes for which an attach on request may succeed.
const ATTACHABLE: readonly Outcome[] = ["DISCOVERY_OUTCOME_NO_RULE", "DISCOVERY_OUTCOME_DETACHED"];
const HEADS = ["Program", "Outcome", "Rule", "Executable", "Reason", ""];

// "no rule"
const outcomeText = (outcome: Outcome): string => outcome.replace("DISCOVERY_OUTCOME_", "").toLowerCase().replaceAll("_", " ");

// "Not profiled: 3 OCaml programs (2 no rule, 1 bytecode)"; "" if there is nothing to report.
export function unprofiledText({ discovered_left_out, unread_files, ended_early }: TargetsAnswer, programs: readonly DiscoveredProgram[]): string {
  const counts = new Map<string, number>();
  for (const { outcome } of programs) counts.set(outcomeText(outcome), (counts.get(outcomeText(outcome)) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]).map(([text, number]) => `${count(number)} ${text}`);
  const all = programs.length, parts = all === 0 ? [] : [`${count(all)} ${all === 1 ? "program" : "programs"} (${sorted.join(", ")})`];
  const more = (number: TargetsAnswer["unread_files"], text: string) => { if (Number(number) > 0) parts.push(`${count(Number(number))} ${text}`); };
  more(discovered_left_out, "more without a row");
  more(unread_files, `${Number(unread_files) === 1 ? "executable" : "executables"} not examined yet`);
  more(ended_early, "ended before they were profiled");
  return parts.length === 0 ? "" : `Not profiled: ${parts.join("; ")}`;
}

export class Unprofiled {
  readonly element = make("details", { className: "unprofiled", hidden: true });
  private readonly summary = make("summary");
  private readonly rows = make("div", { className: "rows" });
  private readonly api = new Api();
  private next = 0;  // time of the next request
  private shown = "";

  constructor(private readonly app: App, private readonly control: Control) {
    this.element.append(this.summary, this.rows);
    this.element.addEventListener("toggle", () => {
      if (this.element.open !== this.isOpen) this.app.store.setExtra(OPEN, this.element.open ? "1" : "");
    });
  }

  update(): void {
    this.element.open = this.isOpen;
    if (performance.now() >= this.next) void this.ask();
  }

  destroy(): void {
    this.api.abort();
  }

  private get isOpen(): boolean {
    return this.app.store.get().extra[OPEN] === "1";
  }

  private async ask(): Promise<void> {
    this.next = Infinity;  // prevents a second request while this one runs
    try {
      this.show(await this.api.targets({ discovered: true }));
    } catch {
      // The page reports that memprofd does not answer.
    }
    this.next = performance.now() + AGE_MS;
  }

  private show(answer: TargetsAnswer): void {
    const programs = answer.discovered.filter(({ outcome }) => !LISTED.includes(outcome)), text = unprofiledText(answer, programs);
    const shown = JSON.stringify([text, programs, this.control.isAllowed]);
    if (shown === this.shown || this.rows.contains(document.activeElement)) return;
    this.shown = shown;
    this.element.hidden = text === "";
    this.summary.textContent = text;
    this.rows.replaceChildren(...(programs.length === 0 ? [] : [make("table", {},
      make("thead", {}, make("tr", {}, ...HEADS.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...programs.map((program) => this.row(program))))]));
  }

  private row(program: DiscoveredProgram): HTMLElement {
    const { pid, comm, outcome, rule, exe, reason } = program;
    const cells = [make("span", {}, make("b", {}, comm), make("span", { className: "muted" }, ` ${pid}`)), outcomeText(outcome), rule, exe,
      reason, ATTACHABLE.includes(outcome) ? this.attachButton(program) : ""];
    return make("tr", { "data-pid": String(pid) }, ...cells.map((cell, i) => make("td", cell === "" ? { className: "none" } : { "data-label": HEADS[i] }, cell)));
  }

  private attachButton({ pid, comm, process_start_ticks }: DiscoveredProgram): HTMLButtonElement {
    const out = button("Attach", () => {
      out.blur();
      void this.control.run(`Attach to ${comm} (pid ${pid})`, "attach", { pid, process_start_ticks }).then(() => { this.next = 0; });
    }, { className: "button small", "aria-label": `Attach to pid ${pid}` });
    out.disabled = !this.control.isAllowed;
    out.title = this.control.reason() || "Starts to profile it at memprofd's default rate";
    return out;
  }
}
