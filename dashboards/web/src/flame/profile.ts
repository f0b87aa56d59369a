// SPDX-License-Identifier: Apache-2.0
// A profile as loaded: checked columns, names of functions, search.

// Format flame_json as written by memprofd (daemon/export/formats/flame_json.h).
export interface FlameJson {
  // Heading; "" stands for "comm (pid)".
  title: string;
  // Of the target; 0 and "" if unknown.
  pid: number;
  comm: string;
  runtime_version: string;
  // Time range of the profile, UTC.
  begin_unix_ms: number;
  end_unix_ms: number;
  sampling_rate: number;  // samples per word
  dropped_events: number;  // events lost in that time; the profile lacks their blocks
  // In display order: memprofd writes live, allocated, promoted, died_young and died_old, in observe mode only
  // allocated.
  measures: Measure[];
  totals: Record<string, [bytes: number, stderr: number, samples: number]>;
  strings: string[];  // names, each once
  // Name and file are indexes in strings. If unknown, file is the index of "" and line is 0.
  functions: [name: number, file: number, line: number][];
  // Caller by node, always a lower number. Node 0 is the root: it has no function, and its parent is -1.
  parent: number[];
  // Index in functions by node (ignored for node 0). Siblings have different functions.
  function: number[];
  // By node: the most frames it stands for when recursion is folded; 1 without this column.
  frames?: number[];
  // By node: bytes and samples of the blocks allocated at exactly this callstack. They sum up to the totals.
  self: Record<string, number[]>;
  samples: Record<string, number[]>;
  // By node: variance of self, bytes squared. It sums up to the variance of the totals.
  variance: Record<string, number[]>;
  // By node: median lifetime of its own blocks in seconds; if more than half are alive it is null, and the second
  // column holds a lower bound. Without this column lifetimes are not coloured.
  lifetime_p50?: (number | null)[];
  lifetime_p50_longer_than?: (number | null)[];
}

export interface Measure {
  key: string;
  label: string;
  unit: string;
}

// The two sides of a difference in one measure, by node.
export interface Sides {
  before: Float64Array;
  beforeSamples: Float64Array;
  beforeVariance: Float64Array;
  after: Float64Array;
  afterSamples: Float64Array;
  afterVariance: Float64Array;
}

function fail(what: string): never {
  throw new Error(`bad profile: ${what}`);
}

function isNumbers(column: unknown, length: number): boolean {
  if (!Array.isArray(column) || column.length !== length) return false;
  for (const value of column) {
    if (typeof value !== "number" || !(value >= 0 && value < Infinity)) return false;
  }
  return true;
}

function checkFunctions(strings: unknown, functions: unknown): void {
  if (!Array.isArray(strings) || !Array.isArray(functions)) fail("no strings or functions");
  const isString = (index: number) => typeof strings[index] === "string";
  functions.forEach((entry, i) => {
    if (!Array.isArray(entry) || !isString(entry[0]) || !isString(entry[1])) {
      fail(`function ${i} has no name or file`);
    }
  });
}

function checkNodes(parent: unknown, fn: unknown, functionCount: number): void {
  if (!Array.isArray(parent) || !Array.isArray(fn)) fail("no nodes");
  if (parent.length === 0 || parent[0] !== -1) fail("node 0 is not the root");
  if (fn.length !== parent.length) fail("parent and function differ in length");
  for (let i = 1; i < parent.length; ++i) {
    if (!(Number.isInteger(parent[i]) && parent[i] >= 0 && parent[i] < i)) {
      fail(`the parent of node ${i} does not come before it`);
    }
    if (!(Number.isInteger(fn[i]) && fn[i] >= 0 && fn[i] < functionCount)) {
      fail(`node ${i} has no function`);
    }
  }
}

function checkMeasures(data: FlameJson): void {
  if (!Array.isArray(data.measures) || data.measures.length === 0) fail("no measures");
  for (const { key, label } of data.measures) {
    if (typeof key !== "string" || typeof label !== "string") fail("a measure without name");
    if (!isNumbers(data.totals?.[key], 3)) fail(`no totals of ${key}`);
    if (!isNumbers(data.self?.[key], data.parent.length)) fail(`no self values of ${key}`);
    if (!isNumbers(data.samples?.[key], data.parent.length)) fail(`no samples of ${key}`);
    if (!isNumbers(data.variance?.[key], data.parent.length)) fail(`no variance of ${key}`);
  }
}

// "Server" for "Server.handle.(fun)"; "" for a C function or an address.
export function moduleOf(name: string): string {
  const dot = name.indexOf(".");
  return dot > 0 && /^\p{Lu}/u.test(name) ? name.slice(0, dot) : "";
}

export class Profile {
  readonly measures: Measure[];
  readonly size: number;  // nodes
  readonly parent: Int32Array;
  readonly fn: Int32Array;
  readonly self: Record<string, Float64Array> = {};
  readonly samples: Record<string, Float64Array> = {};
  readonly variance: Record<string, Float64Array> = {};
  readonly frames: Int32Array | null;  // null: recursion is not folded, or does not occur
  readonly lifetime: Float64Array | null;
  readonly modules: string[];  // by function
  // By measure; set only for a profile that shows a difference.
  sides: Record<string, Sides> | null = null;
  private groupOf: Int32Array | null = null;
  private groupTotal = 0;

  // Throws an Error with a readable message if data is not a profile.
  constructor(readonly data: FlameJson) {
    if (data === null || typeof data !== "object") fail("not an object");
    checkFunctions(data.strings, data.functions);
    checkNodes(data.parent, data.function, data.functions.length);
    checkMeasures(data);
    this.measures = data.measures;
    this.size = data.parent.length;
    this.parent = new Int32Array(data.parent);
    this.fn = new Int32Array(data.function);
    for (const { key } of data.measures) {
      this.self[key] = new Float64Array(data.self[key]);
      this.samples[key] = new Float64Array(data.samples[key]);
      this.variance[key] = new Float64Array(data.variance[key]);
    }
    this.frames = isNumbers(data.frames, this.size) ? new Int32Array(data.frames!) : null;
    this.lifetime = this.lifetimes(data.lifetime_p50, data.lifetime_p50_longer_than);
    this.modules = data.functions.map(([name]) => moduleOf(data.strings[name]));
  }

  // Seconds by node, NaN if unknown; null without lifetimes.
  private lifetimes(column: (number | null)[] | undefined,
                    longerThan: (number | null)[] | undefined): Float64Array | null {
    if (!Array.isArray(column) || column.length !== this.size) return null;
    const seconds = new Float64Array(column.length).fill(NaN);
    let isKnown = false;
    for (let i = 0; i < column.length; ++i) {
      const value = column[i] ?? longerThan?.[i];
      if (typeof value !== "number" || !(value > 0)) continue;
      seconds[i] = value;
      isKnown = true;
    }
    return isKnown ? seconds : null;
  }

  name(fn: number): string {
    return fn < 0 ? "all" : this.data.strings[this.data.functions[fn][0]];
  }
  file(fn: number): string {
    return fn < 0 ? "" : this.data.strings[this.data.functions[fn][1]];
  }
  // "server.ml:42" or "server.ml"; "" if the file is unknown.
  location(fn: number): string {
    if (fn < 0) return "";
    const line = this.data.functions[fn][2];
    const text = this.file(fn);
    return text !== "" && line > 0 ? `${text}:${line}` : text;
  }
  module(fn: number): string {
    return fn < 0 ? "" : this.modules[fn];
  }
  // Sum over the whole profile.
  total(key: string): { bytes: number; error: number; samples: number } {
    const [bytes, error, samples] = this.data.totals[key];
    return { bytes, error, samples };
  }

  // 1 for each function whose name or location matches.
  matching(regexp: RegExp): Uint8Array {
    return Uint8Array.from(this.data.functions, (_, fn) =>
      regexp.test(this.name(fn)) || regexp.test(this.location(fn)) ? 1 : 0);
  }

  // Bytes of all callstacks with a matching function.
  matchedBytes(key: string, matches: Uint8Array): number {
    const self = this.self[key];
    const isIn = new Uint8Array(this.size);
    let sum = 0;
    for (let i = 1; i < this.size; ++i) {
      isIn[i] = isIn[this.parent[i]] | matches[this.fn[i]];
      if (isIn[i]) sum += self[i];
    }
    return sum;
  }

  // Group number by function; one group holds all lines of a function.
  groups(): Int32Array {
    if (this.groupOf) return this.groupOf;
    const numbers = new Map<string, number>();
    this.groupOf = Int32Array.from(this.data.functions, ([name, file]) => {
      const key = `${this.data.strings[name]}\n${this.data.strings[file]}`;
      const number = numbers.get(key) ?? numbers.size;
      numbers.set(key, number);
      return number;
    });
    this.groupTotal = numbers.size;
    return this.groupOf;
  }
  get groupCount(): number {
    this.groups();
    return this.groupTotal;
  }
}
