// SPDX-License-Identifier: Apache-2.0
// Answers about stored snapshots as tables.
import type { HeapDiffAnswer, HeapDiffRow, HeapGarbage, HeapSiteDiffRow, HeapWaste } from "../lib/api";
import { make } from "../lib/dom";
import { bytes, change, count, duration, estimate } from "../lib/format";
import { table } from "../lib/table";

const size = (part?: { bytes: string | number }): string => bytes(Number(part?.bytes ?? 0));
const age = (seconds?: number): string => (seconds === undefined ? "–" : duration(seconds));
const signed = (value: number): string => (value > 0 ? `+${count(value)}` : value < 0 ? `−${count(-value)}` : "0");

function diffRow({ name, base, other, change_bytes }: HeapDiffRow): string[] {
  return [change(Number(change_bytes), 0), size(base), size(other), signed(Number(other?.blocks ?? 0) - Number(base?.blocks ?? 0)), name];
}

function siteRow({ name, base, other, stayed, change_bytes, change_bytes_stderr }: HeapSiteDiffRow, isSame: boolean): string[] {
  const sum = (one?: { bytes: number; bytes_stderr: number }) => (one ? estimate(one.bytes, one.bytes_stderr) : "–");
  return [change(change_bytes, change_bytes_stderr), sum(base), sum(other), ...(isSame ? [sum(stayed)] : []), name];
}

export function differenceTables(diff: HeapDiffAnswer): HTMLElement[] {
  const heads = ["Change", "Earlier", "Later", "Blocks"], isSame = diff.same_process;
  const parts: [title: string, table: HTMLElement][] = [
    ["Heap", table("totals", [...heads, "What"], diff.heap.map(diffRow), 0)],
    ["What roots retain", table("roots", [...heads, "Root"], diff.roots.map(diffRow), Number(diff.more_roots))],
    ["Types and shapes, reachable", table("classes", [...heads, "What"], diff.shapes.map(diffRow), Number(diff.more_shapes))],
    ["Sites, reachable, estimated from sampled blocks", table("sites",
      ["Change", "Earlier", "Later", ...(isSame ? ["Was there and stayed"] : []), "Site"],
      diff.sites.map((row) => siteRow(row, isSame)), Number(diff.more_sites))]];
  return [...(isSame ? [] : [make("p", { className: "muted" }, "They are of different processes: no block can be recognized.")]),
    make("div", { className: "heaps-tables" }, ...parts.map(([title, body]) => make("div", {}, make("h4", {}, title), body)))];
}

export function garbageTables({ garbage: all, young, dead, longest_wait_seconds, sites, more_sites }: HeapGarbage): HTMLElement[] {
  const blocks = (part?: { blocks: string | number }): number => Number(part?.blocks ?? 0);
  const waits = longest_wait_seconds === undefined ? "; the time is known after two have ended since the attach"
    : `, ${duration(longest_wait_seconds)} at most`;
  const kinds = [
    [bytes(Number(all?.bytes ?? 0) - Number(young?.bytes ?? 0)), count(blocks(all) - blocks(young)), `waits for a major collection to find it${waits}`],
    [size(young), count(blocks(young)), "in minor heaps: waits for a minor collection"],
    [size(dead), count(blocks(dead)), "dead: found by the collector, not swept yet"]];
  const sum = (one?: { bytes: number; bytes_stderr: number }) => (one ? estimate(one.bytes, one.bytes_stderr) : "–");
  const rows = sites.map((site) => [sum(site), sum(site.young), age(site.ages?.p50_seconds), age(site.ages?.p90_seconds),
    site.longest_wait_seconds === undefined ? "–" : `≤ ${duration(site.longest_wait_seconds)}`, site.name]);
  return [table("garbage", ["Garbage", "Blocks", "What"], kinds, 0),
    ...(sites.length === 0 ? [] : [make("h4", {}, "Sites, estimated from sampled blocks; ages since they were allocated"),
      table("garbage-sites", ["Garbage", "Young", "Age p50", "Age p90", "Waits", "Site"], rows, Number(more_sites))])];
}

export function wasteTable({ patterns }: HeapWaste): HTMLElement {
  if (patterns.length === 0) return make("p", { className: "muted" }, "No waste found.");
  const rows = patterns.flatMap((row) => [
    [bytes(Number(row.bytes_to_win)), bytes(Number(row.bytes)), count(Number(row.blocks)), `${row.pattern}; instead: ${row.instead}`],
    ...row.places.slice(0, 5).map((place) => [bytes(Number(place.bytes_to_win)), "", "", `  ${place.root}`])]);
  return table("waste", ["To win", "Taken", "Count", "What"], rows, 0);
}
