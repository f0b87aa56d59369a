// SPDX-License-Identifier: Apache-2.0
// Stored heap snapshots: differences between two, wasted memory, and floating garbage.
import "./heaps.css";
import type { App, Panel } from "../app";
import { Api, msOf, type KeptHeap } from "../lib/api";
import { clock } from "../lib/axis";
import { button, make } from "../lib/dom";
import { bytes, count, duration } from "../lib/format";
import { typesText } from "../lib/heap_types";
import { CONTROL_OFF, refused } from "../lib/pause";
import { heapsOf, withHeap, type View } from "../lib/state";
import { HeapAreas } from "./areas";
import { differenceTables, garbageTables, wasteTable } from "./tables";

const OFF = `Answers from snapshots require control. ${CONTROL_OFF}, or use memprofctl snapshot`;

export function mountHeaps(container: HTMLElement, app: App): Panel {
  return new Heaps(container, app);
}

const titleOf = (heap: KeptHeap): string => `${clock(msOf(heap.unix_ns))}, ${bytes(Number(heap.heap_bytes))}`;

class Heaps implements Panel {
  private readonly api = new Api();
  private readonly status = make("span", { className: "muted" });
  private readonly keep = button("Keep one now", () => void this.keepOne(), { className: "button",
    title: "Pauses the program briefly; memprofd stores the snapshot, and a mark above the chart shows it" });
  private readonly refusal = make("div", { "aria-live": "polite" });
  private readonly list = make("div", { className: "kept", role: "group", "aria-label": "Kept snapshots" });
  private readonly areas: HeapAreas;
  private readonly answer = make("div", { className: "answer" });
  private listed = "";
  private asked = "";

  constructor(private readonly container: HTMLElement, private readonly app: App) {
    this.areas = new HeapAreas(app);
    container.append(make("div", { className: "card" },
      make("div", { className: "heaps-head" }, make("h2", { id: "heaps-title" }, "Snapshots of the heap"), this.status,
        make("span", { className: "space" }), this.keep), this.refusal, this.list, this.areas.element, this.answer));
  }

  update(view: View): void {
    const { heaps } = this.app;
    this.container.hidden = heaps === undefined;
    if (!heaps) return;
    this.keep.disabled = !this.app.server.control || !this.app.runs() || this.app.target()?.mode === "observe";
    this.status.textContent = (heaps.length === 0 ? "No snapshots of this program yet."
      : `${count(heaps.length)} stored. Select one, or two to compare, here or above the chart.`) +
      (this.app.server.control ? "" : ` ${CONTROL_OFF} to take one here.`);
    const chosen = heapsOf(view).map((name) => heaps.find((heap) => heap.name === name)).filter((heap) => heap !== undefined);
    this.showList(heaps, chosen);
    this.areas.update(view);
    this.show(chosen.sort((a, b) => msOf(a.unix_ns) - msOf(b.unix_ns)));
  }

  destroy(): void {
    this.api.abort();
    this.areas.destroy();
  }

  private showList(heaps: readonly KeptHeap[], chosen: readonly KeptHeap[]): void {
    const shown = JSON.stringify([heaps.map(({ name }) => name), chosen.map(({ name }) => name)]);
    if (shown === this.listed) return;
    this.listed = shown;
    const { store } = this.app;
    this.list.replaceChildren(...heaps.map((heap) => button(titleOf(heap),
      () => store.setExtra("heaps", withHeap(heapsOf(store.get()), heap.name), true),
      { className: "button small", "aria-pressed": String(chosen.includes(heap)), "data-name": heap.name,
        title: `${heap.name}: a file of ${bytes(Number(heap.file_bytes))}; the program was paused for ${duration(heap.pause_seconds)}` })));
  }

  // Skips a question that is already asked.
  private show(chosen: readonly KeptHeap[]): void {
    const question = chosen.map(({ name }) => name).join(",");
    if (question === this.asked) return;
    this.asked = question;
    if (chosen.length === 0) this.answer.replaceChildren();
    else if (!this.app.server.control) this.answer.replaceChildren(make("p", { className: "muted" }, OFF));
    else void this.ask(chosen, question);
  }

  private async ask(chosen: readonly KeptHeap[], question: string): Promise<void> {
    this.answer.replaceChildren(make("p", { className: "muted" }, "Reading …"));
    const last = chosen.at(-1)!, parts: HTMLElement[] = [];
    try {
      if (chosen.length === 2) {
        parts.push(make("h3", {}, `Added from ${titleOf(chosen[0]!)} to ${titleOf(last)}`),
          ...differenceTables(await this.api.compareHeaps(chosen[0]!.name, last.name)));
      }
      const waste = await this.api.wasteOf(last.name);
      parts.push(make("h3", {}, `Waste at ${titleOf(last)}`), wasteTable(waste),
        make("p", { className: "muted types" }, typesText(waste.types)),
        make("h3", {}, `Floating garbage at ${titleOf(last)}`), ...garbageTables(await this.api.garbageOf(last.name)));
    } catch (error) {
      parts.push(make("p", { className: "error" }, (error as Error).message));
    }
    if (question === this.asked) this.answer.replaceChildren(...parts);
  }

  private async keepOne(pid = this.app.store.get().pid, maxPause?: number): Promise<void> {
    const comm = this.app.target(pid)?.comm ?? "";
    this.refusal.replaceChildren();
    this.keep.disabled = true;
    this.app.notify(`Snapshot of ${comm} (pid ${pid}) …`);
    try {
      const { heap } = await this.api.keepHeap(pid, maxPause);
      this.app.notify(`Snapshot of ${comm} (pid ${pid}): stored, ${bytes(Number(heap.file_bytes))}; the program was paused for ${duration(heap.pause_seconds)}`);
      await this.app.refreshHeaps();
    } catch (error) {
      this.app.notify("");
      this.refusal.replaceChildren(refused(error, (seconds) => void this.keepOne(pid, seconds)));
    } finally {
      this.keep.disabled = false;
    }
  }
}
