// SPDX-License-Identifier: Apache-2.0
// All targets, with current allocation rate, live memory and losses.
import "./overview.css";
import type { App, Panel } from "../app";
import { enumText, msOf, type Overhead, type Target } from "../lib/api";
import { button, make } from "../lib/dom";
import { bytes, count, duration, estimate, interval, share } from "../lib/format";
import { CONTROL_OFF } from "../lib/pause";
import type { View } from "../lib/state";
import { Control } from "./control";
import { HeapCard } from "./heap";
import { RateMeter } from "./rates";
import { Unprofiled } from "./unprofiled";

const HEADS = ["Program", "State", "Live", "Allocates", "Heap", "Collections", "Pauses, 99 %", "Rate per word", "Lost", ""];

export function mountOverview(container: HTMLElement, app: App): Panel {
  return new Overview(container, app);
}

class Overview implements Panel {
  private readonly meter = new RateMeter();
  private readonly control: Control;
  private readonly title = make("h2", { id: "overview-title" }, "Programs");
  private readonly body = make("tbody");
  private readonly heap = new HeapCard();
  private readonly off = make("p", { className: "off muted", hidden: true }, `${CONTROL_OFF} to attach, detach and take snapshots here.`);
  private readonly unprofiled: Unprofiled;
  private readonly empty = make("p", { className: "empty", hidden: true });
  private readonly table: HTMLElement;
  private form: HTMLElement;
  private rows = new Map<number, Row>();
  private isAllowed = false;
  private noted: readonly Target[] = [];

  constructor(container: HTMLElement, private readonly app: App) {
    this.control = new Control(app);
    this.unprofiled = new Unprofiled(app, this.control);
    this.form = this.control.attachForm();
    this.table = make("div", { className: "table" }, make("table", { className: "targets" },
      make("thead", {}, make("tr", {}, ...HEADS.map((text) => make("th", { scope: "col" }, text)))), this.body));
    container.append(make("div", { className: "card" },
      make("div", { className: "overview-head" }, this.title, make("span", { className: "space" }), this.form),
      this.off, this.table, this.empty, this.unprofiled.element, this.heap.element));
  }

  update(view: View): void {
    this.allow();
    const at = performance.now(), { targets } = this.app;
    if (targets !== this.noted) for (const target of targets) this.meter.note(target, at);
    this.noted = targets;
    for (const [pid, row] of this.rows) {
      if (targets.some((target) => target.pid === pid)) continue;
      row.element.remove();
      this.rows.delete(pid);
    }
    targets.forEach((target, index) => this.row(target, index).update(target, this.meter, target.pid === view.pid));
    this.unprofiled.update();
    this.table.hidden = targets.length === 0;
    this.empty.hidden = targets.length > 0;
    this.empty.textContent = "No program is profiled. Attach to one: memprofctl attach --pid PID" +
      (this.control.isAllowed ? ", or above." : ".");
  }

  destroy(): void {
    this.unprofiled.destroy();
    this.rows.clear();
  }

  // Whether control is allowed is unknown until the server has answered.
  private allow(): void {
    this.off.hidden = this.control.isAllowed || this.app.server.version === "";
    if (this.isAllowed === this.control.isAllowed) return;
    this.isAllowed = this.control.isAllowed;
    const form = this.control.attachForm();
    this.form.replaceWith(form);
    this.form = form;
    for (const row of this.rows.values()) row.element.remove();
    this.rows.clear();
  }

  private row(target: Target, index: number): Row {
    let row = this.rows.get(target.pid);
    if (!row) {
      row = new Row(target, this.app, this.control, this.heap);
      this.rows.set(target.pid, row);
    }
    if (this.body.children[index] !== row.element) this.body.insertBefore(row.element, this.body.children[index] ?? null);
    return row;
  }
}

// Memory outside of the heap that custom blocks hold.
function externalText({ live_external: external }: Target): string {
  if (external === undefined || Number(external.samples) === 0) return "";
  return `; ${estimate(external.bytes, external.bytes_stderr)} of it outside of the heap, held by custom blocks`;
}

const ago = (unixNs: Target["attached_unix_ns"]): string => `${duration((Date.now() - msOf(unixNs)) / 1000)} ago`;

// How a program ended. isBad: unexpectedly.
function endOf({ end }: Target): { text: string; isBad: boolean } | undefined {
  switch (end?.cause) {
    case "END_CAUSE_EXIT": return { text: `exit code ${end.exit_code}`, isBad: end.exit_code !== 0 };
    case "END_CAUSE_SIGNAL": return { text: `killed by ${end.signal}`, isBad: end.signal !== "SIGTERM" && end.signal !== "SIGINT" };
    case "END_CAUSE_OUT_OF_MEMORY": return { text: "out of memory", isBad: true };
    default: return undefined;
  }
}

class Row {
  readonly element = make("tr");
  private readonly cells = HEADS.map((head) => make("td", { "data-label": head }));
  private readonly rate: HTMLInputElement;
  private readonly budget = make("span", { className: "budget" });
  private readonly detach: HTMLButtonElement;
  private readonly snapshot: HTMLButtonElement;
  private readonly heap: HTMLButtonElement;

  constructor(target: Target, private readonly app: App, control: Control, card: HeapCard) {
    this.rate = control.rateField(target);
    this.detach = control.detachButton(target);
    this.snapshot = control.snapshotButton(target);
    this.heap = control.heapButton(target, () => card.ask(target.pid, target.comm));
    const open = button(target.comm, () => this.choose(target.pid), { className: "link", title: `${target.exe}, OCaml ${target.runtime_version}` });
    this.cells[0]!.append(open, make("span", { className: "muted" }, ` ${target.pid}`));
    this.cells[7]!.append(this.rate, this.budget);
    this.cells[9]!.append(this.detach, this.snapshot, this.heap);
    this.element.dataset["pid"] = String(target.pid);
    this.element.append(...this.cells);
    this.element.addEventListener("click", (event) => {
      if (!(event.target as HTMLElement).closest("button, input")) this.choose(target.pid);
    });
  }

  private choose(pid: number): void {
    const view = this.app.store.get();
    if (view.pid === pid) return;
    this.app.store.update({ pid, drill: [], begin: undefined, compare: undefined }, true);
  }

  update(target: Target, meter: RateMeter, isChosen: boolean): void {
    this.element.classList.toggle("chosen", isChosen);
    this.element.setAttribute("aria-selected", String(isChosen));
    const { gc } = target, rates = meter.rates(target.pid), state = enumText(target.state);
    const runs = state === "sampling" || state === "waiting";
    const set = (index: number, text: string, title = "") => {
      const cell = this.cells[index]!;
      if (cell.textContent !== text) cell.textContent = text;
      cell.title = title;
    };
    const end = endOf(target);
    set(1, `${state}${state === "sampling" ? `, ${target.mode}` : end ? `: ${end.text}` : ""}`, (target.message ||
      `attached ${ago(target.attached_unix_ns)}`) + (runs ? "" : `, ${ago(target.ended_unix_ns)}`) + `; callstacks by the ${target.capture}`);
    this.cells[1]!.className = end?.isBad === true ? "failed" : state;
    // Live memory before the last restart of sampling; its blocks are no longer followed.
    const before = target.live_before === undefined ? "" : `, before ${bytes(target.live_before.bytes)}`;
    if (target.live === undefined) set(2, "–", "unknown in observe mode");
    else set(2, estimate(target.live.bytes, target.live.bytes_stderr) + before, `${interval(target.live.bytes_lower, target.live.bytes_upper)}; ` +
      `${count(Number(target.live_samples))} blocks followed` + externalText(target));
    set(3, runs && rates ? `${estimate(rates.bytes, rates.error)}/s` : "–", "over the last 10 s");
    const heap = Number(gc?.heap_bytes ?? 0);
    set(4, heap > 0 ? bytes(heap) : "–", gc && heap > 0 ? `at most ${bytes(Number(gc.top_heap_bytes))}` : "");
    set(5, gc && runs && rates ? `${rates.minor.toFixed(1)}/s${rates.major === undefined ? "" : `, ${perTime(rates.major)}`}` : "–",
      gc ? `${count(Number(gc.minor_collections))} minor, ${count(Number(gc.major_collections))} major, ${count(Number(gc.compactions))} compactions` : "");
    set(6, gc?.minor_pauses && Number(gc.minor_pauses.count) > 0 ? duration(gc.minor_pauses.p99_seconds) : "–",
      gc?.major_slice_pauses ? `minor collections; slices of major work: ${duration(gc.major_slice_pauses.p99_seconds)}` : "");
    if (document.activeElement !== this.rate) this.rate.value = target.sampling_rate.toExponential();
    const lost = Number(target.dropped_events);
    set(8, lost === 0 ? "none" : count(lost), target.drops.map(({ stage, reason, count: n, given_up }) => `${stage} ${reason}: ${count(Number(n))}` +
      (given_up ? ", omitted deliberately" : "")).join("\n"));
    this.cells[8]!.className = lost === 0 ? "" : "lost";
    this.showBudget(target, runs ? target.overhead : undefined);
    this.detach.hidden = !runs;
    this.heap.hidden = this.snapshot.hidden = state !== "sampling" || target.mode === "observe";
    this.rate.hidden = !runs || target.mode === "observe";
  }

  // "0.7 % of 1.0 % CPU" beside the resulting rate, "0.7 % CPU" without a budget; also the requested
  // rate if it differs.
  private showBudget(target: Target, overhead?: Overhead): void {
    this.budget.classList.toggle("exhausted", overhead?.exhausted ?? false);
    const limited = (overhead?.budget_ratio ?? 0) > 0;
    this.budget.textContent = !overhead ? "" : share(overhead.ratio, 1) + (limited ? ` of ${share(overhead.budget_ratio, 1)}` : "") + " CPU" +
      (overhead.requested_sampling_rate > target.sampling_rate ? `, requested ${overhead.requested_sampling_rate.toExponential()}` : "");
    this.budget.title = overhead ? `Profiling costs ${share(overhead.ratio, 1)} of the program's CPU, the budget is ` +
      `${limited ? share(overhead.budget_ratio, 1) : "not limited"}. Requested ${overhead.requested_sampling_rate.toExponential()} per word, ` +
      `lowered ${count(Number(overhead.rate_lowered))} times, raised ${count(Number(overhead.rate_raised))} times.` +
      (target.message ? ` Now ${target.message}.` : "") +
      (overhead.exhausted ? " Even the lowest rate costs more: raise the budget, or detach." : "") : "";
  }
}

// "3.0/min major"
function perTime(perSecond: number): string {
  return perSecond >= 1 ? `${perSecond.toFixed(1)}/s major` : `${(perSecond * 60).toFixed(1)}/min major`;
}
