// SPDX-License-Identifier: Apache-2.0
// State that the panels share, and the tick that updates them.
import { Api, enumText, isAbort, msOf, type HistoryAnswer, type KeptHeap, type KeptHeaps, type ServerInfo, type Target } from "./lib/api";
import { axisOf, type Recorded } from "./lib/axis";
import { Clocks } from "./lib/clock";
import { isKnown } from "./lib/names";
import { Store, type Phase, type Range, type View } from "./lib/state";

// A part of the page. update() is called when the view has changed and, while the view is live, at every tick; a
// hidden panel should then send no requests.
export interface Panel {
  update(view: View): void;
  destroy(): void;
}
export type Mount<P extends Panel = Panel> = (container: HTMLElement, app: App) => P;

// An entry of the export menu: a file made here, or a URL to save.
export interface Exporter {
  id: string;
  label: string;
  available(): boolean;
  run(): Promise<{ name: string; blob: Blob } | { url: string }>;
}

export interface App {
  readonly store: Store;
  readonly exporters: Exporter[];
  readonly targets: readonly Target[]; // as of the last tick
  readonly server: ServerInfo;
  target(pid?: number): Target | undefined; // default: the view's target
  runs(pid?: number): boolean; // true while it is recorded
  recorded(pid?: number): Recorded;
  axis(): Range; // the time axis of all charts
  // Call this for each history that ends now.
  noteHistory(pid: number, answer: HistoryAnswer): void;
  refresh(): Promise<void>; // fetches the targets now
  // Stored snapshots of the view's program, the latest first; undefined if memprofd stores none.
  readonly heaps: readonly KeptHeap[] | undefined;
  refreshHeaps(): Promise<void>;
  // Phases that a program publishes, for every chart.
  phases(pid?: number): readonly Phase[];
  notePhases(pid: number, phases: readonly Phase[]): void;
  isDark(): boolean;
  // Shows one line until the next; "" clears it. control: an element that offers a remedy.
  notify(message: string, kind?: "info" | "error", control?: HTMLElement | null): void;
  // Shows an error, unless it belongs to a superseded request.
  fail(error: unknown): void;
}

// File name for a file about the view's target.
export function fileName(app: App, what: string, extension: string): string {
  const target = app.target();
  return `${target ? `${target.comm}-${target.pid}` : "memprofd"}-${what}.${extension}`.replace(/[^\w.-]+/g, "_");
}

export const TICK_MS = 2000;
const HEAPS_MS = 8000;

export class PageApp implements App {
  readonly store = new Store();
  readonly exporters: Exporter[] = [];
  targets: readonly Target[] = [];
  server: ServerInfo = { version: "", revision: "", control: false };
  private readonly api = new Api();
  private readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  private readonly panels: Panel[] = [];
  private readonly clocks = new Clocks();
  private error = "";
  private isUpdating = false;
  private kept: { pid: number; at: number; answer?: KeptHeaps } = { pid: 0, at: 0 };
  private readonly published = new Map<number, readonly Phase[]>();  // phases by pid

  constructor(private readonly notice: HTMLElement) {
    this.dark.addEventListener("change", () => this.updatePanels());
    this.store.subscribe(() => this.updatePanels());
  }

  mount<P extends Panel>(mount: Mount<P>, id: string): P {
    const container = document.getElementById(id);
    if (!container) throw new Error(`no element #${id}`);
    const panel = mount(container, this);
    this.panels.push(panel);
    return panel;
  }

  async start(): Promise<void> {
    await this.askServer();
    await this.refresh();
    this.updatePanels();
    window.setInterval(() => {
      if (!document.hidden) void this.refresh();
    }, TICK_MS);
  }

  target(pid = this.store.get().pid): Target | undefined {
    return this.targets.find((target) => target.pid === pid);
  }
  isDark(): boolean {
    return this.dark.matches;
  }

  runs(pid = this.store.get().pid): boolean {
    const target = this.target(pid);
    return target !== undefined && ["sampling", "waiting"].includes(enumText(target.state));
  }
  recorded(pid = this.store.get().pid): Recorded {
    const target = this.target(pid);
    return this.clocks.recorded(pid, this.runs(pid), target ? msOf(target.attached_unix_ns) : Date.now() - 1000);
  }
  axis(): Range {
    return axisOf(this.store.get(), this.recorded());
  }
  noteHistory(pid: number, answer: HistoryAnswer): void {
    this.clocks.note(pid, answer);
  }

  notify(message: string, kind: "info" | "error" = "info", control: HTMLElement | null = null): void {
    this.notice.replaceChildren(message, ...(control ? [" ", control] : []));
    this.notice.className = kind;
    this.notice.hidden = message === "";
  }
  fail(error: unknown): void {
    if (isAbort(error)) return;
    this.notify(error instanceof Error ? error.message : String(error), "error");
  }

  // Fetches the targets and updates the panels.
  async refresh(): Promise<void> {
    try {
      const { targets } = await this.api.targets();
      this.targets = targets;
      this.recover();
      this.chooseTarget();
      this.updatePanels();
      const { pid } = this.store.get();
      if (pid !== 0 && (this.kept.pid !== pid || performance.now() > this.kept.at + HEAPS_MS)) await this.refreshHeaps();
    } catch (error) {
      if (isAbort(error)) return;
      this.error = error instanceof TypeError ? "memprofd does not answer: it has ended, or the network is gone"
        : error instanceof Error ? error.message : String(error);
      this.notify(this.error, "error");
    }
  }

  get heaps(): readonly KeptHeap[] | undefined {
    const { pid, answer } = this.kept;
    return answer?.directory && pid === this.store.get().pid ? answer.heaps : undefined;
  }
  async refreshHeaps(): Promise<void> {
    const { pid } = this.store.get(), before = this.kept;
    this.kept = { pid, at: performance.now(), ...(before.pid === pid && before.answer ? { answer: before.answer } : {}) };
    const answer = await this.api.heaps(pid);
    if (this.kept.pid === pid) this.kept = { pid, at: performance.now(), answer };
    this.updatePanels();
  }

  phases(pid = this.store.get().pid): readonly Phase[] {
    return this.published.get(pid) ?? [];
  }
  notePhases(pid: number, phases: readonly Phase[]): void {
    if (JSON.stringify(phases) === JSON.stringify(this.phases(pid))) return;
    this.published.set(pid, phases);
    this.updatePanels();
  }

  private async askServer(): Promise<void> {
    try {
      this.server = await this.api.server();
    } catch {
      this.server = { version: "", revision: "", control: false };  // an older memprofd
    }
  }

  private recover(): void {
    if (this.error !== "" && this.notice.textContent === this.error) this.notify("");
    this.error = "";
  }

  // Selects the target that was attached last if the view has none, or one that is unknown here.
  private chooseTarget(): void {
    const { pid } = this.store.get();
    if (this.targets.length === 0 || this.target(pid)) return;
    const latest = [...this.targets].sort((a, b) => msOf(b.attached_unix_ns) - msOf(a.attached_unix_ns))[0]!;
    if (pid !== 0) this.notify(`pid ${pid} was never profiled here: this is pid ${latest.pid}`, "error");
    this.store.update({ pid: latest.pid });
  }

  // In observe mode only allocated memory is known.
  private chooseMeasure(): void {
    const target = this.target(), { measure, filter } = this.store.get();
    if (target && !isKnown(measure, target.mode, filter["heap"])) this.store.update({ measure: "allocated" });
  }

  // Updates panels at most once per frame.
  private updatePanels(): void {
    if (this.isUpdating) return;
    this.isUpdating = true;
    requestAnimationFrame(() => {
      this.chooseMeasure();
      this.isUpdating = false;
      const view = this.store.get();
      for (const panel of this.panels) panel.update(view);
    });
  }
}
