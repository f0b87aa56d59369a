// SPDX-License-Identifier: Apache-2.0
// The two trees of one measure that the graph draws.
//
//   profile            CallTree          CallerTree
//   main ▸ f      2    all 4             all 4
//   main ▸ g      1    └ main 4          ├ f 3
//   main ▸ g ▸ f  1      ├ f 2           │ ├ main 2
//                        └ g 2           │ └ g 1 ─ main 1
//                          └ f 1         └ g 1 ─ main 1
//
// Both have the same shape. Nodes are numbers; the root is 0. No function recurses, because stacks may be 10,000
// deep.
import { count } from "../lib/format";
import type { Profile, Sides } from "./profile";

// The sums of both sides by node, for a profile that shows a difference.
export interface TreeSides {
  before: Column;
  beforeSamples: Column;
  beforeVariance: Column;
  after: Column;
  afterSamples: Column;
  afterVariance: Column;
}

type Column = number[] | Float64Array | Int32Array;

export interface Tree {
  readonly profile: Profile;
  readonly key: string;  // of the measure
  readonly inverted: boolean;
  // Columns by node.
  readonly parent: Column;
  readonly fn: Column;  // function; -1 for the root
  readonly depth: Column;
  readonly total: Column;
  readonly self: Column;
  readonly samples: Column;
  readonly selfSamples: Column;
  readonly variance: Column;  // of total, bytes squared
  readonly selfVariance: Column;
  readonly frames: Column | null;  // the most frames that a node stands for; null: one each
  readonly sides: TreeSides | null;
  // The children of n are childList[childBegin[n] .. childEnd[n]), the largest first; valid after prepare(n).
  readonly childList: Column;
  readonly childBegin: Column;
  readonly childEnd: Column;
  prepare(node: number): void;
  // Geometric mean of the lifetimes below the node in seconds, weighted by the measure; NaN: unknown.
  lifetime(node: number): number;
  // A name of a node that is valid in every measure, and the node of a name (0: none).
  pathOf(node: number): string;
  find(path: string): number;
}

// Name of a node: "List.init ×312" if recursion is folded.
export function labelOf(tree: Tree, node: number): string {
  const name = tree.profile.name(tree.fn[node]), frames = tree.frames?.[node] ?? 1;
  return frames > 1 ? `${name} ${timesOf(frames)}` : name;
}
export const timesOf = (frames: number): string => `×${count(frames)}`;

// A row of the table of functions.
export interface FunctionSum {
  fn: number;
  oneLine: boolean;  // all its frames are at one line
  self: number;
  selfVariance: number;
  total: number;  // counts a recursive function once per stack
  variance: number;
  samples: number;
}

const SIDES = ["before", "beforeSamples", "beforeVariance", "after", "afterSamples", "afterVariance"] as const;

// Sorts list[begin..end) by total, the largest first, then ascending. Insertion sort, because most lists are short.
function sortByTotal(list: Int32Array, begin: number, end: number, total: Float64Array): void {
  if (end - begin > 24) {
    list.subarray(begin, end).sort((a, b) => total[b] - total[a] || a - b);
    return;
  }
  for (let i = begin + 1; i < end; ++i) {
    const node = list[i];
    let at = i;
    for (; at > begin && total[list[at - 1]] < total[node]; --at) list[at] = list[at - 1];
    list[at] = node;
  }
}

export class CallTree implements Tree {
  readonly inverted = false;
  readonly parent: Int32Array;
  readonly fn: Int32Array;
  readonly depth: Int32Array;
  readonly total: Float64Array;
  readonly self: Float64Array;
  readonly samples: Float64Array;
  readonly selfSamples: Float64Array;
  readonly variance: Float64Array;
  readonly selfVariance: Float64Array;
  readonly frames: Int32Array | null;
  readonly sides: Sides | null;
  childList = new Int32Array(0);
  readonly childBegin: Int32Array;
  readonly childEnd: Int32Array;
  private logSum: Float64Array | null = null;
  private logWeight: Float64Array | null = null;
  private sums: FunctionSum[] | null = null;

  constructor(readonly profile: Profile, readonly key: string) {
    const { size } = profile;
    this.parent = profile.parent;
    this.fn = profile.fn.slice();
    this.fn[0] = -1;
    this.self = profile.self[key];
    this.selfSamples = profile.samples[key];
    this.total = this.subtree(this.self);
    this.samples = this.subtree(this.selfSamples);
    this.selfVariance = profile.variance[key];
    this.variance = this.subtree(this.selfVariance);
    this.frames = profile.frames;
    this.depth = new Int32Array(size);
    for (let i = 1; i < size; ++i) this.depth[i] = this.depth[this.parent[i]] + 1;
    this.childBegin = new Int32Array(size);
    this.childEnd = new Int32Array(size);
    this.linkChildren();
    const sides = profile.sides?.[key];
    this.sides = sides === undefined ? null
      : Object.fromEntries(SIDES.map((side) => [side, this.subtree(sides[side])])) as unknown as Sides;
    if (profile.lifetime) this.sumLifetimes(profile.lifetime);
  }

  private subtree(own: Float64Array): Float64Array {
    const sum = own.slice();
    for (let i = sum.length - 1; i > 0; --i) sum[this.parent[i]] += sum[i];
    return sum;
  }

  // Omits children without any of the measure.
  private linkChildren(): void {
    const { total, parent, childBegin, childEnd } = this;
    const size = total.length;
    for (let i = 1; i < size; ++i) if (total[i] > 0) ++childEnd[parent[i]];
    let at = 0;
    for (let i = 0; i < size; ++i) {
      childBegin[i] = at;
      at += childEnd[i];
      childEnd[i] = childBegin[i];
    }
    this.childList = new Int32Array(at);
    for (let i = 1; i < size; ++i) if (total[i] > 0) this.childList[childEnd[parent[i]]++] = i;
    for (let i = 0; i < size; ++i) sortByTotal(this.childList, childBegin[i], childEnd[i], total);
  }

  private sumLifetimes(lifetime: Float64Array): void {
    const [weight, sum] = [new Float64Array(lifetime.length), new Float64Array(lifetime.length)];
    for (let i = 0; i < lifetime.length; ++i) {
      if (!(lifetime[i] > 0) || this.self[i] === 0) continue;
      weight[i] = this.self[i];
      sum[i] = this.self[i] * Math.log(lifetime[i]);
    }
    this.logWeight = this.subtree(weight);
    this.logSum = this.subtree(sum);
  }

  prepare(): void {}

  lifetime(node: number): number {
    if (this.logSum === null || this.logWeight === null || !(this.logWeight[node] > 0)) return NaN;
    return Math.exp(this.logSum[node] / this.logWeight[node]);
  }
  pathOf(node: number): string {
    return node === 0 ? "" : String(node);
  }
  find(path: string): number {
    const node = /^\d{1,9}$/.test(path) ? Number(path) : 0;
    return node < this.parent.length && this.total[node] > 0 ? node : 0;
  }

  // All functions with some of the measure.
  functions(): FunctionSum[] {
    return (this.sums ??= this.sumFunctions());
  }
  private sumFunctions(): FunctionSum[] {
    const found = new Array<FunctionSum | undefined>(this.profile.groupCount);
    const group = this.profile.groups();
    const open = new Int32Array(this.profile.groupCount);
    const stack = [0];
    while (stack.length > 0) {
      const node = stack.pop() as number;
      if (node < 0) {
        --open[group[this.fn[~node]]];
        continue;
      }
      if (node > 0) {
        stack.push(~node);
        const at = group[this.fn[node]];
        this.addTo((found[at] ??= this.newSum(this.fn[node])), node, open[at]++ === 0);
      }
      for (let c = this.childBegin[node]; c < this.childEnd[node]; ++c) {
        stack.push(this.childList[c]);
      }
    }
    return found.filter((sum): sum is FunctionSum => sum !== undefined);
  }
  private newSum(fn: number): FunctionSum {
    return { fn, oneLine: true, self: 0, selfVariance: 0, total: 0, variance: 0, samples: 0 };
  }
  private addTo(sum: FunctionSum, node: number, isOutermost: boolean): void {
    sum.oneLine &&= this.profile.location(this.fn[node]) === this.profile.location(sum.fn);
    sum.self += this.self[node];
    sum.selfVariance += this.selfVariance[node];
    if (!isOutermost) return;
    sum.total += this.total[node];
    sum.variance += this.variance[node];
    sum.samples += this.samples[node];
  }
}

// Callstacks merged from the leaf, so that the children of a function are its callers. Children are made on demand,
// because all of them can be far more than the nodes of the profile.
export class CallerTree implements Tree {
  readonly inverted = true;
  readonly parent: number[] = [];
  readonly fn: number[] = [];
  readonly depth: number[] = [];
  readonly total: number[] = [];
  readonly self: number[] = [];
  readonly samples: number[] = [];
  readonly selfSamples: number[] = [];
  readonly variance: number[] = [];
  readonly selfVariance: number[] = [];
  readonly frames: number[] | null;
  readonly sides: TreeSides | null;
  readonly childList: number[] = [];
  readonly childBegin: number[] = [];
  readonly childEnd: number[] = [];
  private readonly logSum: number[] = [];
  private readonly logWeight: number[] = [];
  // For each node that is not yet prepared, pairs of (node of the profile, its leaf).
  private readonly open: (number[] | null)[] = [];
  private readonly ownSides: Sides | null;

  constructor(readonly profile: Profile, readonly key: string) {
    this.ownSides = profile.sides?.[key] ?? null;
    this.sides = this.ownSides && { before: [], beforeSamples: [], beforeVariance: [], after: [], afterSamples: [], afterVariance: [] };
    this.frames = profile.frames && [];
    this.makeNode(-1, -1);
    for (let i = 0; i < profile.size; ++i) {
      if (profile.self[key][i] <= 0) continue;
      this.open[0]?.push(i, i);
      this.add(0, i);
    }
  }

  private makeNode(parent: number, fn: number): number {
    const node = this.parent.length;
    this.parent.push(parent);
    this.fn.push(fn);
    this.depth.push(parent < 0 ? 0 : this.depth[parent] + 1);
    for (const column of [this.total, this.self, this.samples, this.selfSamples, this.variance, this.selfVariance,
      this.logSum, this.logWeight, this.childBegin, this.childEnd]) column.push(0);
    if (this.sides) for (const side of SIDES) (this.sides[side] as number[]).push(0);
    this.frames?.push(1);
    this.open.push([]);
    return node;
  }

  private add(node: number, leaf: number): void {
    const bytes = this.profile.self[this.key][leaf];
    this.total[node] += bytes;
    this.samples[node] += this.profile.samples[this.key][leaf];
    this.variance[node] += this.profile.variance[this.key][leaf];
    if (this.sides && this.ownSides) {
      for (const side of SIDES) this.sides[side][node] += this.ownSides[side][leaf];
    }
    const seconds = this.profile.lifetime?.[leaf] ?? NaN;
    if (seconds > 0) {
      this.logSum[node] += bytes * Math.log(seconds);
      this.logWeight[node] += bytes;
    }
  }

  prepare(node: number): void {
    const pairs = this.open[node];
    if (pairs === null) return;
    this.open[node] = null;
    const children = new Map<number, number>();  // by function
    for (let i = 0; i < pairs.length; i += 2) {
      const place = node === 0 ? pairs[i] : this.profile.parent[pairs[i]];
      if (place <= 0) {  // the stack ends here
        this.self[node] += this.profile.self[this.key][pairs[i + 1]];
        this.selfSamples[node] += this.profile.samples[this.key][pairs[i + 1]];
        this.selfVariance[node] += this.profile.variance[this.key][pairs[i + 1]];
        continue;
      }
      const fn = this.profile.fn[place];
      const child = children.get(fn) ?? this.makeNode(node, fn);
      children.set(fn, child);
      this.open[child]?.push(place, pairs[i + 1]);
      this.add(child, pairs[i + 1]);
      if (this.frames) this.frames[child] = Math.max(this.frames[child], this.profile.frames![place]);
    }
    this.childBegin[node] = this.childList.length;
    const sorted = [...children.values()].sort((a, b) => this.total[b] - this.total[a] || a - b);
    for (const child of sorted) this.childList.push(child);
    this.childEnd[node] = this.childList.length;
  }

  lifetime(node: number): number {
    return this.logWeight[node] > 0 ? Math.exp(this.logSum[node] / this.logWeight[node]) : NaN;
  }
  // The functions from the leaf outwards.
  pathOf(node: number): string {
    const path = [];
    for (let at = node; at > 0; at = this.parent[at]) path.push(this.fn[at]);
    return path.reverse().join(".");
  }
  find(path: string): number {
    let node = 0;
    for (const fn of path === "" ? [] : path.split(".").map(Number)) {
      this.prepare(node);
      const children = this.childList.slice(this.childBegin[node], this.childEnd[node]);
      const next = children.find((child) => this.fn[child] === fn);
      if (next === undefined) return 0;
      node = next;
    }
    return node;
  }
}
