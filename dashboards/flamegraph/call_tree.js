// The two trees that are drawn, of one measure each.
//
//   profile            CallTree          CallerTree
//   main ▸ f      2    all 4             all 4
//   main ▸ g      1    └ main 4          ├ f 3
//   main ▸ g ▸ f  1      ├ f 2           │ ├ main 2
//                        └ g 2           │ └ g 1 ─ main 1
//                          └ f 1         └ g 1 ─ main 1
//
// Both have the same shape. Nodes are numbers, the root is 0; by node: parent,
// fn (function; -1 for the root), depth, total, self, samples, and the children
// childList[childBegin[n] .. childEnd[n]), the largest first, after
// prepare(n). Nothing here recurses: stacks may be 10,000 deep.
(function (memprof) {
  "use strict";

  class CallTree {
    constructor(profile, key) {
      this.profile = profile;
      this.inverted = false;
      this.parent = profile.parent;
      this.fn = profile.fn.slice();
      this.fn[0] = -1;
      this.self = profile.self[key];
      this.selfSamples = profile.samples[key];
      this.total = this.self.slice();
      this.samples = this.selfSamples.slice();
      this.depth = new Int32Array(profile.size);
      for (let i = profile.size - 1; i > 0; --i) {
        this.total[this.parent[i]] += this.total[i];
        this.samples[this.parent[i]] += this.samples[i];
      }
      for (let i = 1; i < profile.size; ++i) this.depth[i] = this.depth[this.parent[i]] + 1;
      this.#linkChildren(profile.size);
      if (profile.lifetime) this.#sumLifetimes(profile.lifetime);
    }

    // Children without any of the measure are left out.
    #linkChildren(size) {
      const { total, parent } = this;
      const order = [];
      for (let i = 1; i < size; ++i) if (total[i] > 0) order.push(i);
      order.sort((a, b) => parent[a] - parent[b] || total[b] - total[a] || a - b);
      this.childList = Int32Array.from(order);
      this.childBegin = new Int32Array(size);
      this.childEnd = new Int32Array(size);
      for (let at = 0; at < order.length; ++at) {
        const above = parent[order[at]];
        if (this.childEnd[above] === 0) this.childBegin[above] = at;
        this.childEnd[above] = at + 1;
      }
    }

    #sumLifetimes(lifetime) {
      const size = this.parent.length;
      this.logSum = new Float64Array(size);
      this.logWeight = new Float64Array(size);
      for (let i = size - 1; i >= 0; --i) {
        if (lifetime[i] > 0) {
          this.logSum[i] += this.self[i] * Math.log(lifetime[i]);
          this.logWeight[i] += this.self[i];
        }
        if (i === 0) break;
        this.logSum[this.parent[i]] += this.logSum[i];
        this.logWeight[this.parent[i]] += this.logWeight[i];
      }
    }

    prepare(_node) {}

    // Seconds, the geometric mean of what is below, weighted by the measure; NaN: unknown.
    lifetime(node) {
      return this.logWeight?.[node] > 0 ? Math.exp(this.logSum[node] / this.logWeight[node]) : NaN;
    }
    // A name for a node that holds in every measure, and its node (0 when there is none).
    pathOf(node) {
      return node === 0 ? "" : String(node);
    }
    find(path) {
      const node = /^\d{1,9}$/.test(path) ? Number(path) : 0;
      return node < this.parent.length && this.total[node] > 0 ? node : 0;
    }

    // [{fn, oneLine, self, selfSamples, total, samples}] of each function that
    // has any of the measure. total counts a recursive function once per stack.
    functions() {
      return (this.sums ??= this.#sumFunctions());
    }
    #sumFunctions() {
      const group = this.profile.groups();
      const found = new Array(this.profile.groupCount);
      const open = new Int32Array(this.profile.groupCount);
      const stack = [0];
      while (stack.length > 0) {
        const node = stack.pop();
        if (node < 0) {
          --open[group[this.fn[~node]]];
          continue;
        }
        if (node > 0) {
          stack.push(~node);
          const fn = this.fn[node];
          const at = group[fn];
          const sum = (found[at] ??=
            { fn, oneLine: true, self: 0, selfSamples: 0, total: 0, samples: 0 });
          sum.oneLine &&= this.profile.location(fn) === this.profile.location(sum.fn);
          sum.self += this.self[node];
          sum.selfSamples += this.selfSamples[node];
          if (open[at]++ === 0) {
            sum.total += this.total[node];
            sum.samples += this.samples[node];
          }
        }
        for (let c = this.childBegin[node]; c < this.childEnd[node]; ++c) {
          stack.push(this.childList[c]);
        }
      }
      return found.filter((sum) => sum !== undefined);
    }
  }

  // Callstacks merged from the leaf: below each function its callers. Children
  // are made when they are asked for, as all of them can be far more than the
  // nodes of the profile.
  class CallerTree {
    constructor(profile, key) {
      this.profile = profile;
      this.inverted = true;
      this.source = { self: profile.self[key], samples: profile.samples[key] };
      Object.assign(this, { parent: [-1], fn: [-1], depth: [0], total: [0], self: [0], samples: [0],
        selfSamples: [0], logSum: [0], logWeight: [0], childList: [], childBegin: [0], childEnd: [0] });
      // By node not yet prepared: pairs of (place on the stack, its leaf).
      this.open = [[]];
      for (let i = 0; i < profile.size; ++i) {
        if (this.source.self[i] <= 0) continue;
        this.open[0].push(i, i);
        this.#add(0, i);
      }
    }

    #make(parent, fn) {
      const node = this.parent.length;
      this.parent.push(parent);
      this.fn.push(fn);
      this.depth.push(this.depth[parent] + 1);
      for (const column of ["total", "self", "samples", "selfSamples", "logSum", "logWeight",
        "childBegin", "childEnd"]) this[column].push(0);
      this.open.push([]);
      return node;
    }

    #add(node, leaf) {
      const bytes = this.source.self[leaf];
      this.total[node] += bytes;
      this.samples[node] += this.source.samples[leaf];
      const seconds = this.profile.lifetime?.[leaf];
      if (seconds > 0) {
        this.logSum[node] += bytes * Math.log(seconds);
        this.logWeight[node] += bytes;
      }
    }

    prepare(node) {
      const pairs = this.open[node];
      if (pairs === null) return;
      this.open[node] = null;
      const children = new Map();  // by function
      for (let i = 0; i < pairs.length; i += 2) {
        const place = node === 0 ? pairs[i] : this.profile.parent[pairs[i]];
        if (place <= 0) {  // the stack ends here
          this.self[node] += this.source.self[pairs[i + 1]];
          this.selfSamples[node] += this.source.samples[pairs[i + 1]];
          continue;
        }
        const fn = this.profile.fn[place];
        if (!children.has(fn)) children.set(fn, this.#make(node, fn));
        const child = children.get(fn);
        this.open[child].push(place, pairs[i + 1]);
        this.#add(child, pairs[i + 1]);
      }
      this.childBegin[node] = this.childList.length;
      const sorted = [...children.values()].sort((a, b) => this.total[b] - this.total[a] || a - b);
      for (const child of sorted) this.childList.push(child);
      this.childEnd[node] = this.childList.length;
    }

    lifetime(node) {
      return CallTree.prototype.lifetime.call(this, node);
    }
    // The functions from the leaf on.
    pathOf(node) {
      const path = [];
      for (let at = node; at > 0; at = this.parent[at]) path.push(this.fn[at]);
      return path.reverse().join(".");
    }
    find(path) {
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

  memprof.CallTree = CallTree;
  memprof.CallerTree = CallerTree;
})((globalThis.memprof ??= {}));
