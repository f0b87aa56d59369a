// SPDX-License-Identifier: Apache-2.0
// Tables of a heap's blocks by size, used and free: count, bytes, cumulative share.
import type { HeapCensus } from "../lib/api";
import { make } from "../lib/dom";
import { bytes, count, share } from "../lib/format";

interface Row { name: string; blocks: number; size: number }

const row = (name: string, ...counts: ({ blocks: string | number; bytes: string | number } | undefined)[]): Row => ({
  name,
  blocks: counts.reduce((sum, one) => sum + Number(one?.blocks ?? 0), 0),
  size: counts.reduce((sum, one) => sum + Number(one?.bytes ?? 0), 0),
});

// The used blocks include garbage, and dead blocks that are not swept yet.
export function sizeTables({ sizes, free: all }: HeapCensus): HTMLElement {
  const live = sizes.map(({ name, reachable, garbage, dead }) => row(name, reachable, garbage, dead));
  const free = (all?.sizes ?? []).map((one) => row(`up to ${bytes(8 * Number(one.most_words))}`, one));
  return make("div", { className: "heap-sizes" }, make("h4", {}, "Sizes of blocks, with their headers"),
    table("live-sizes", "There", live), make("h4", {}, "Sizes of free blocks"),
    ...(free.length === 0 ? [make("p", { className: "muted" }, "None is free.")]
      : [table("free-sizes", "Free", free), make("p", { className: "muted fragmentation" }, fragmentation(free, Number(all?.largest_bytes ?? 0)))]));
}

function fragmentation(free: readonly Row[], largest: number): string {
  const all = free.reduce((sum, { size }) => sum + size, 0);
  return `Fragmentation: ${share(all - largest, all)} of the free memory is not in its largest block, of ${bytes(largest)}.`;
}

function table(name: string, what: string, rows: readonly Row[]): HTMLElement {
  const all = rows.reduce((sum, { size }) => sum + size, 0), most = Math.max(...rows.map(({ size }) => size));
  let upToHere = 0;
  const line = (one: Row): HTMLElement => {
    upToHere += one.size;
    const bar = make("i");
    bar.style.width = `${(100 * one.size) / Math.max(1, most)}%`;
    const cells = [one.name, bytes(one.size), count(one.blocks), share(one.size, all), share(upToHere, all)];
    return make("tr", {}, ...cells.map((cell) => make("td", {}, cell)), make("td", { className: "bar" }, bar));
  };
  return make("table", { "data-table": name },
    make("thead", {}, make("tr", {}, ...["Size", what, "Blocks", "Share", "Up to here", ""].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map(line)));
}
