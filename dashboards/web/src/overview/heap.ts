// SPDX-License-Identifier: Apache-2.0
// Contents of a program's heap and what keeps them alive, from a snapshot taken on request.
import { Api, type HeapAnswer, type HeapClass, type HeapHolder } from "../lib/api";
import { button, make } from "../lib/dom";
import { bytes, count, duration, share } from "../lib/format";
import { typesText } from "../lib/heap_types";
import { refused } from "../lib/pause";
import { sizeTables } from "./heap_sizes";

const size = (part?: { bytes: string | number }): number => Number(part?.bytes ?? 0);

export class HeapCard {
  readonly element = make("section", { className: "heap", hidden: true, "aria-label": "What is in a heap" });
  private readonly api = new Api();

  async ask(pid: number, comm: string, maxPause?: number): Promise<void> {
    const waits = make("p", { className: "muted" }, `Taking a snapshot of ${comm} (pid ${pid}) …`);
    this.element.hidden = false;
    this.element.replaceChildren(waits);
    try {
      const answer = await this.api.heap(pid, maxPause);
      if (waits.isConnected) this.show(`${comm} (pid ${pid})`, answer);
    } catch (error) {
      if (waits.isConnected) this.element.replaceChildren(refused(error, (seconds) => void this.ask(pid, comm, seconds)));
    }
  }

  private show(program: string, answer: HeapAnswer): void {
    const { census, retained, garbage } = answer, { snapshot, heap: all, free, shapes, more_shapes, types } = census;
    const close = button("Close", () => { this.element.hidden = true; }, { className: "button small" });
    const longest = garbage.longest_wait_seconds;
    const sum = `${bytes(size(all?.reachable))} reachable, in ${count(Number(all?.reachable?.blocks ?? 0))} blocks; ${bytes(size(all?.garbage))} garbage ` +
      `not collected yet${longest === undefined ? "" : ` (it waits for ${duration(longest)} at most)`}, ${bytes(size(all?.dead))} dead, not swept yet; ${bytes(size(free))} free. ` +
      (Number(all?.outside_bytes ?? 0) > 0 ? `${bytes(Number(all?.outside_bytes))} are held outside of the heap, by Bigarrays, channels and native blocks. ` : "") +
      `The program was paused for ${duration(snapshot?.pause_seconds ?? 0)}.`;
    this.element.replaceChildren(
      make("div", { className: "heap-head" }, make("h3", {}, `Heap of ${program}`), make("span", { className: "space" }), close),
      make("p", {}, sum),
      make("p", { className: "muted types" }, typesText(types)),
      make("div", { className: "heap-parts" },
        make("div", { className: "holders" }, make("h4", {}, "What holds it"), tree(retained.roots, size(all?.reachable), true)),
        make("div", {}, make("h4", {}, "What it is"), table(shapes, Number(more_shapes))),
        sizeTables(census)));
  }
}

const outside = ({ outside_bytes }: HeapHolder): string =>
  (Number(outside_bytes) > 0 ? `, and ${bytes(Number(outside_bytes))} outside of the heap` : "");

// Tree of retained memory. The root kinds are open, deeper levels unfold.
function tree(rows: readonly HeapHolder[], all: number, isOpen = false): HTMLElement {
  return make("ul", {}, ...rows.map((row) => {
    if (Number(row.more) > 0) return make("li", { className: "muted" }, `… ${count(Number(row.more))} more, ${bytes(size(row))}`);
    const line = [make("span", { className: "part" }, share(size(row), all)), ` ${row.name} `,
      make("span", { className: "muted" }, `${bytes(size(row))}, ${count(Number(row.blocks))} blocks${outside(row)}`)];
    return row.children.length === 0 ? make("li", {}, ...line)
      : make("li", {}, make("details", { open: isOpen }, make("summary", {}, ...line), tree(row.children, all)));
  }));
}

function table(classes: readonly HeapClass[], more: number): HTMLElement {
  const row = ({ name, reachable, garbage }: HeapClass): HTMLElement => make("tr", {}, make("td", {}, name),
    make("td", {}, bytes(size(reachable))), make("td", {}, count(Number(reachable?.blocks ?? 0))), make("td", {}, bytes(size(garbage))));
  return make("table", { className: "classes" },
    make("thead", {}, make("tr", {}, ...["Class", "Reachable", "Blocks", "Garbage"].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...classes.map(row)),
    ...(more > 0 ? [make("tfoot", {}, make("tr", {}, make("td", { colSpan: 4, className: "muted" }, `… ${count(more)} more`)))] : []));
}
