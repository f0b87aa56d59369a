// SPDX-License-Identifier: Apache-2.0
// Merges two profiles of the same program into one that shows their difference.
//
// The width of a frame is its value after, before, or half of the sum of both; the last also shows frames that are
// gone. A frame is always as wide as its children and its own value. Allocated, promoted and dead memory is per
// second of each profile's time, so that times of unequal length compare; live memory is not scaled.
import { isFlow } from "../lib/names";
import { Profile, type FlameJson, type Sides } from "./profile";

export type Width = "after" | "before" | "both";
export const WIDTHS: readonly Width[] = ["after", "before", "both"];

// One of the two profiles, in the numbering of the difference.
interface Side {
  profile: Profile;
  nodes: Int32Array;  // by node: its node in the difference
  seconds: number;
}

// Merges the functions and nodes of both profiles.
class Merger {
  readonly strings: string[] = [""];
  readonly functions: FlameJson["functions"] = [];
  readonly parent: number[] = [-1];
  readonly fn: number[] = [0];
  readonly frames: number[] = [1];
  private readonly stringIds = new Map<string, number>([["", 0]]);
  private readonly functionIds = new Map<string, number>();
  private readonly children: Map<number, number>[] = [new Map()];  // by node; keys are functions

  add(profile: Profile): Int32Array {
    const functions = profile.data.functions.map((_, fn) => this.functionOf(profile, fn));
    const nodes = new Int32Array(profile.size);
    for (let i = 1; i < profile.size; ++i) {
      const node = this.child(nodes[profile.parent[i]], functions[profile.fn[i]]);
      nodes[i] = node;
      this.frames[node] = Math.max(this.frames[node], profile.frames?.[i] ?? 1);
    }
    return nodes;
  }

  private stringId(text: string): number {
    const id = this.stringIds.get(text) ?? this.strings.length;
    if (id === this.strings.length) this.strings.push(text);
    this.stringIds.set(text, id);
    return id;
  }
  private functionOf(profile: Profile, fn: number): number {
    const [, , line] = profile.data.functions[fn];
    const [name, file] = [this.stringId(profile.name(fn)), this.stringId(profile.file(fn))];
    const key = `${name},${file},${line}`;
    const id = this.functionIds.get(key) ?? this.functions.length;
    if (id === this.functions.length) this.functions.push([name, file, line]);
    this.functionIds.set(key, id);
    return id;
  }
  private child(node: number, fn: number): number {
    const known = this.children[node].get(fn);
    if (known !== undefined) return known;
    const next = this.parent.length;
    this.children[node].set(fn, next);
    this.children.push(new Map());
    this.parent.push(node);
    this.fn.push(fn);
    this.frames.push(1);
    return next;
  }
}

function moved(column: Float64Array, side: Side, size: number, scale: number): Float64Array {
  const out = new Float64Array(size);
  for (let i = 0; i < column.length; ++i) out[side.nodes[i]] += column[i] * scale;
  return out;
}

function sidesOf(key: string, before: Side, after: Side, size: number): Sides {
  const scale = (side: Side) => (isFlow(key) ? 1 / side.seconds : 1);
  return {
    before: moved(before.profile.self[key], before, size, scale(before)),
    beforeSamples: moved(before.profile.samples[key], before, size, 1),
    beforeVariance: moved(before.profile.variance[key], before, size, scale(before) ** 2),
    after: moved(after.profile.self[key], after, size, scale(after)),
    afterSamples: moved(after.profile.samples[key], after, size, 1),
    afterVariance: moved(after.profile.variance[key], after, size, scale(after) ** 2),
  };
}

const sum = (column: Iterable<number>): number => {
  let total = 0;
  for (const value of column) total += value;
  return total;
};

function widths(a: Float64Array, b: Float64Array, width: Width): number[] {
  return Array.from(a, (before, i) =>
    width === "before" ? before : width === "after" ? b[i] : (before + b[i]) / 2);
}

const secondsOf = ({ data }: Profile): number =>
  Math.max(1e-3, (data.end_unix_ms - data.begin_unix_ms) / 1000);

export function differenceOf(before: Profile, after: Profile, width: Width): Profile {
  const merger = new Merger();
  // The later profile comes first, so that its order of functions is kept.
  const b: Side = { profile: after, nodes: merger.add(after), seconds: secondsOf(after) };
  const a: Side = { profile: before, nodes: merger.add(before), seconds: secondsOf(before) };
  const size = merger.parent.length;
  const data: FlameJson = { ...after.data, strings: merger.strings, functions: merger.functions,
    parent: merger.parent, function: merger.fn, frames: merger.frames, self: {}, samples: {}, variance: {},
    totals: {}, lifetime_p50: [] };
  const sides: Record<string, Sides> = {};
  for (const { key } of after.measures) {
    const both = sidesOf(key, a, b, size);
    sides[key] = both;
    data.self[key] = widths(both.before, both.after, width);
    data.samples[key] = widths(both.beforeSamples, both.afterSamples, width);
    // The variance of half the sum is a quarter of the sum of variances.
    data.variance[key] = widths(both.beforeVariance, both.afterVariance, width)
      .map((variance) => (width === "both" ? variance / 2 : variance));
    data.totals[key] = [sum(data.self[key]), Math.sqrt(sum(data.variance[key])), sum(data.samples[key])];
  }
  const profile = new Profile(data);
  profile.sides = sides;
  return profile;
}
