// A profile as it was read: checked columns, names of functions, search. The
// format is described at the head of page.js.
(function (memprof) {
  "use strict";

  function fail(what) {
    throw new Error(`bad profile: ${what}`);
  }

  const isNumbers = (column, length) =>
    Array.isArray(column) && column.length === length &&
    column.every((value) => typeof value === "number" && Number.isFinite(value) && value >= 0);

  function checkFunctions(strings, functions) {
    if (!Array.isArray(strings) || !Array.isArray(functions)) fail("no strings or functions");
    const isString = (index) => typeof strings[index] === "string";
    functions.forEach((entry, i) => {
      if (!Array.isArray(entry) || !isString(entry[0]) || !isString(entry[1])) {
        fail(`function ${i} has no name or file`);
      }
    });
  }

  function checkNodes(parent, fn, functionCount) {
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

  function checkMeasures(data) {
    if (!Array.isArray(data.measures) || data.measures.length === 0) fail("no measures");
    for (const { key, label } of data.measures) {
      if (typeof key !== "string" || typeof label !== "string") fail("a measure without name");
      if (!isNumbers(data.totals?.[key], 3)) fail(`no totals of ${key}`);
      if (!isNumbers(data.self?.[key], data.parent.length)) fail(`no self values of ${key}`);
      if (!isNumbers(data.samples?.[key], data.parent.length)) fail(`no samples of ${key}`);
    }
  }

  // "Server" of "Server.handle.(fun)"; "" for a C function or an address.
  function moduleOf(name) {
    const dot = name.indexOf(".");
    return dot > 0 && /^\p{Lu}/u.test(name) ? name.slice(0, dot) : "";
  }

  class Profile {
    // Throws an Error with a message for people when data is not a profile.
    constructor(data) {
      if (data === null || typeof data !== "object") fail("not an object");
      checkFunctions(data.strings, data.functions);
      checkNodes(data.parent, data.function, data.functions.length);
      checkMeasures(data);
      this.data = data;
      this.measures = data.measures;
      this.size = data.parent.length;
      this.parent = Int32Array.from(data.parent);
      this.fn = Int32Array.from(data.function);
      this.self = {};
      this.samples = {};
      for (const { key } of data.measures) {
        this.self[key] = Float64Array.from(data.self[key]);
        this.samples[key] = Float64Array.from(data.samples[key]);
      }
      this.lifetime = this.#lifetimes(data.lifetime_p50);
      this.modules = data.functions.map(([name]) => moduleOf(data.strings[name]));
    }

    // Seconds by node; NaN where nothing died. null without lifetimes.
    #lifetimes(column) {
      if (!Array.isArray(column) || column.length !== this.size) return null;
      const seconds = Float64Array.from(column, (value) => (value > 0 ? value : NaN));
      return seconds.some((value) => value > 0) ? seconds : null;
    }

    name(fn) {
      return fn < 0 ? "all" : this.data.strings[this.data.functions[fn][0]];
    }
    // "server.ml:42", "server.ml", "" when the file is not known.
    location(fn) {
      if (fn < 0) return "";
      const [, file, line] = this.data.functions[fn];
      const text = this.data.strings[file];
      return text !== "" && line > 0 ? `${text}:${line}` : text;
    }
    module(fn) {
      return fn < 0 ? "" : this.modules[fn];
    }
    // {bytes, error, samples} of everything.
    total(key) {
      const [bytes, error, samples] = this.data.totals[key];
      return { bytes, error, samples };
    }

    // 1 for each function whose name or location matches.
    matching(regexp) {
      return Uint8Array.from(this.data.functions, (_, fn) =>
        regexp.test(this.name(fn)) || regexp.test(this.location(fn)) ? 1 : 0);
    }

    // Bytes of all callstacks that hold a matching function.
    matchedBytes(key, matches) {
      const self = this.self[key];
      const isIn = new Uint8Array(this.size);
      let sum = 0;
      for (let i = 1; i < this.size; ++i) {
        isIn[i] = isIn[this.parent[i]] | matches[this.fn[i]];
        if (isIn[i]) sum += self[i];
      }
      return sum;
    }

    // The same function at several lines is one group: group number by function.
    groups() {
      if (this.groupOf) return this.groupOf;
      const numbers = new Map();
      this.groupOf = Int32Array.from(this.data.functions, ([name, file]) => {
        const key = `${this.data.strings[name]}\n${this.data.strings[file]}`;
        if (!numbers.has(key)) numbers.set(key, numbers.size);
        return numbers.get(key);
      });
      this.groupCount = numbers.size;
      return this.groupOf;
    }
  }

  // One standard error: the samples of a sum at one rate are Poisson.
  const errorOf = (bytes, samples) => (samples > 0 ? bytes / Math.sqrt(samples) : 0);

  memprof.Profile = Profile;
  memprof.errorOf = errorOf;
})((globalThis.memprof ??= {}));
