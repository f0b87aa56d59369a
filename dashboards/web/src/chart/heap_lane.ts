// SPDX-License-Identifier: Apache-2.0
// Stored heap snapshots as marks above the time axis; a click selects one or two.
import type { App } from "../app";
import { msOf, type KeptHeap } from "../lib/api";
import { clock } from "../lib/axis";
import { button, make } from "../lib/dom";
import { bytes } from "../lib/format";
import { heapsOf, withHeap, type View } from "../lib/state";
import { SIDE_PX } from "./area_chart";

export class HeapLane {
  readonly element = make("div", { className: "heap-lane", role: "group", "aria-label": "Snapshots of the heap", hidden: true });
  private marks = new Map<string, HTMLButtonElement>();

  constructor(private readonly app: App) {}

  update(view: View): void {
    const heaps = this.app.heaps ?? [], chosen = heapsOf(view), axis = this.app.axis();
    this.element.hidden = heaps.length === 0;
    const names = new Set(heaps.map(({ name }) => name));
    for (const [name, mark] of this.marks) {
      if (names.has(name)) continue;
      mark.remove();
      this.marks.delete(name);
    }
    for (const heap of heaps) {
      const mark = this.marks.get(heap.name) ?? this.add(heap);
      const at = (msOf(heap.unix_ns) - axis.begin) / (axis.end - axis.begin);
      mark.hidden = at < 0 || at > 1;
      mark.style.left = `calc(${SIDE_PX}px + ${at} * (100% - ${2 * SIDE_PX}px))`;
      mark.setAttribute("aria-pressed", String(chosen.includes(heap.name)));
    }
  }

  private add(heap: KeptHeap): HTMLButtonElement {
    const { store } = this.app, label = `Snapshot of ${clock(msOf(heap.unix_ns))}, heap of ${bytes(Number(heap.heap_bytes))}`;
    const mark = button("", () => store.setExtra("heaps", withHeap(heapsOf(store.get()), heap.name), true),
      { "aria-label": label, title: `${label}. Select one, or two to compare`, "data-name": heap.name });
    this.marks.set(heap.name, mark);
    this.element.append(mark);
    return mark;
  }
}
