// SPDX-License-Identifier: Apache-2.0
// Controls around the graph, rebuilt from the view each time.
import { make, button } from "../lib/dom";
import * as format from "../lib/format";
import { labelOf, type CallTree, type FunctionSum, type Tree } from "./call_tree";
import { changeOf, css, type Colours } from "./colours";
import type { Item, WindowPoint } from "./flame_graph";
import type { FlameJson, Profile } from "./profile";

const TOP = 30;
const CRUMBS = 7;

const estimate = (bytes: number, variance: number) => format.estimate(bytes, Math.sqrt(variance));

export function facts(data: FlameJson): HTMLElement[] {
  const version = data.runtime_version ? `OCaml ${data.runtime_version}` : "";
  return [data.title && data.comm, data.pid > 0 && data.title ? `pid ${data.pid}` : "", version,
    format.timeRange(data.begin_unix_ms, data.end_unix_ms),
    data.sampling_rate > 0 ? `sampling rate ${format.rate(data.sampling_rate)}` : "",
    data.dropped_events > 0 ? "" : "no events lost"]
    .filter(Boolean).map((text) => make("span", {}, text));
}

export const titleOf = (data: FlameJson): string =>
  data.title || (data.pid > 0 ? `${data.comm} (pid ${data.pid})` : data.comm) || "Profile";

export function measureCards(profile: Profile, chosen: string,
                             onChoose: (key: string) => void): HTMLElement[] {
  return profile.measures.map(({ key, label }) => {
    const total = profile.total(key);
    const input = make("input", { type: "radio", name: "measure", value: key, checked: key === chosen });
    input.addEventListener("change", () => onChoose(key));
    return make("label", {}, input, make("span", { className: "label" }, label),
      make("span", { className: "value" }, format.estimate(total.bytes, total.error)),
      make("span", { className: "samples" }, `${format.count(total.samples)} samples`));
  });
}

// The path from the root to the zoomed frame; a long one omits its middle.
export function crumbs(tree: Tree, zoom: number, onZoom: (node: number) => void): HTMLElement[] {
  const path: number[] = [];
  for (let node = zoom; node >= 0; node = tree.parent[node]) path.push(node);
  path.reverse();
  const name = (node: number) => labelOf(tree, node);
  const step = (node: number) => node === zoom
    ? make("span", { "aria-current": "true" }, name(node))
    : make("span", {}, button(name(node), () => onZoom(node), { title: name(node) }));
  if (path.length <= CRUMBS) return path.map(step);
  const left = path.length - CRUMBS + 1;
  const gap = make("span", {}, `${format.count(left)} more`);
  return [step(path[0]), gap, ...path.slice(1 + left).map(step)];
}

type Fact = [term: string, words: string];

// Both sides of a difference, and the change.
function factsOfChange(tree: Tree, node: number, unit: string): Fact[] {
  const { sides } = tree;
  if (sides === null) return [];
  const { change, error, relative } = changeOf(tree, node);
  const of = (bytes: number, variance: number) => `${estimate(bytes, variance)}${unit}`;
  const percent = sides.before[node] > 0 && relative !== 0
    ? `  (${change > 0 ? "+" : "−"}${format.share(Math.abs(change), sides.before[node])})` : "";
  return [["Before", of(sides.before[node], sides.beforeVariance[node])],
    ["After", of(sides.after[node], sides.afterVariance[node])],
    ["Change", `${format.change(change, error)}${unit}${percent}`]];
}

function factsOfFrame(tree: Tree, node: number, label: string): Fact[] {
  const [total, samples] = [tree.total[node], tree.samples[node]];
  const rows: Fact[] = [[label, `${estimate(total, tree.variance[node])}  (${format.share(total, tree.total[0])})`]];
  if (tree.parent[node] > 0) {
    const of = tree.inverted ? "Of the callee" : "Of the caller";
    rows.push([of, format.share(total, tree.total[tree.parent[node]])]);
  }
  const selfWords = estimate(tree.self[node], tree.selfVariance[node]);
  rows.push([tree.inverted ? "Outermost" : "Self",
    `${selfWords}  (${format.share(tree.self[node], tree.total[0])})`]);
  rows.push(["Samples", `${format.count(samples)}, self ${format.count(tree.selfSamples[node])}`]);
  const frames = tree.frames?.[node] ?? 1;
  if (frames > 1) rows.push(["Recursion", `at most ${format.count(frames)} frames, folded`]);
  const lifetime = tree.lifetime(node);
  if (lifetime > 0) rows.push(["Typical lifetime", format.duration(lifetime)]);
  return rows;
}

// Content of the tooltip for an item of onPoint. unit follows the bytes of a difference.
export function tip(tree: Tree, item: Item, measureLabel: string, unit = ""): HTMLElement[] {
  if ("rest" in item) {
    const { count, bytes } = item.rest;
    return [make("strong", {}, `${format.count(count)} smaller frames`),
      make("div", { className: "where" }, `${format.bytes(bytes)}; zoom in to see them`)];
  }
  const fn = tree.fn[item.node];
  const list = make("dl");
  const facts = tree.sides ? factsOfChange(tree, item.node, unit)
    : factsOfFrame(tree, item.node, measureLabel);
  for (const [term, words] of facts) list.append(make("dt", {}, term), make("dd", {}, words));
  return [make("strong", {}, labelOf(tree, item.node)),
    make("div", { className: "where" }, tree.profile.location(fn)), list];
}

// Places the tooltip beside the pointer, inside the window.
export function placeTip(element: HTMLElement, { x, y }: WindowPoint): void {
  const { offsetWidth: w, offsetHeight: h } = element;
  element.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - w - 8))}px`;
  const isRoom = y + 18 + h < window.innerHeight - 4;
  element.style.top = `${isRoom ? y + 18 : Math.max(4, y - h - 12)}px`;
}

function topRow(profile: Profile, row: FunctionSum, whole: number,
                onPick: (name: string) => void): HTMLElement {
  const name = profile.name(row.fn);
  const location = profile.location(row.fn);
  const cell = (text: string, className = "") => make("td", { className }, text);
  return make("tr", {},
    make("td", { className: "text" }, button(name, () => onPick(name), { title: "Search for this function" })),
    cell(row.oneLine ? location : location.replace(/:\d+$/, ""), "text where"),
    cell(estimate(row.self, row.selfVariance)), cell(format.share(row.self, whole), "dim"),
    cell(estimate(row.total, row.variance)), cell(format.share(row.total, whole), "dim"),
    cell(format.count(row.samples), "dim"));
}

export type TopSort = "self" | "total";

function topHead(sort: TopSort, onSort: (key: TopSort) => void): HTMLElement {
  const header = (text: string, className = "") => make("th", { scope: "col", className }, text);
  const sorted = (key: TopSort, text: string) => make("th",
    { scope: "col", ...(key === sort ? { "aria-sort": "descending" } : {}) }, button(text, () => onSort(key)));
  return make("thead", {}, make("tr", {}, header("Function", "text"), header("Location", "text"),
    sorted("self", "Self"), header("%"), sorted("total", "Total"), header("%"), header("Samples")));
}

// The functions with most of a measure.
export function topTable(tree: CallTree, sort: TopSort, onSort: (key: TopSort) => void,
                         onPick: (name: string) => void) {
  const { profile } = tree;
  const rows = [...tree.functions()];
  rows.sort((a, b) => b[sort] - a[sort] || b.total - a.total || a.fn - b.fn);
  const body = make("tbody");
  for (const row of rows.slice(0, TOP)) body.append(topRow(profile, row, tree.total[0], onPick));
  return { children: [topHead(sort, onSort), body], shown: Math.min(TOP, rows.length), of: rows.length };
}

function key(colour: number, text: string): HTMLElement {
  const swatch = make("i");
  swatch.style.background = css(colour);
  return make("span", { className: "key" }, swatch, text);
}

function scaleKey(from: string, stops: string[], to: string): HTMLElement {
  const scale = make("i", { className: "scale" });
  scale.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  return make("span", { className: "key" }, from, scale, to);
}

function legendOfModules(tree: Tree, colours: Colours): HTMLElement[] {
  const { profile } = tree;
  const self = profile.self[tree.key];
  const byFunction = new Float64Array(profile.modules.length);
  for (let i = 1; i < profile.size; ++i) byFunction[profile.fn[i]] += self[i];
  const sums = new Map<string, number>();
  byFunction.forEach((sum, fn) => {
    if (sum > 0) sums.set(profile.module(fn), (sums.get(profile.module(fn)) ?? 0) + sum);
  });
  const first = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 8);
  return first.map(([module]) => key(colours.ofModule(module), module || "no module (C, unknown)"));
}

// Meaning of the colours: the modules with most of the measure, or a scale.
export function legend(tree: Tree, colours: Colours): HTMLElement[] {
  const { theme, range } = colours;
  if (colours.mode === "lifetime") {
    return [make("span", {}, "Median lifetime; where more than half is alive, at least its age"),
      scaleKey(`≤ ${format.duration(range.low)}`, theme.scale, `≥ ${format.duration(range.high)}`),
      key(theme.unknown, "not known")];
  }
  if (colours.mode === "change") {
    return [make("span", {}, "Change; paler when close to its error"),
      scaleKey("gone", theme.change, "new")];
  }
  return legendOfModules(tree, colours);
}
