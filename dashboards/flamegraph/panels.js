// What is around the graph: built anew from the view each time. Text from the
// profile only ever becomes text nodes.
(function (memprof) {
  "use strict";
  const { format, errorOf } = memprof;
  const TOP = 30;
  const CRUMBS = 7;

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  const estimate = (bytes, samples) => format.estimate(bytes, errorOf(bytes, samples));

  function facts(data) {
    const version = data.runtime_version ? `OCaml ${data.runtime_version}` : "";
    return [data.title && data.comm, data.pid > 0 && data.title ? `pid ${data.pid}` : "", version,
      format.timeRange(data.begin_unix_ms, data.end_unix_ms),
      data.sampling_rate > 0 ? `sampling rate ${format.rate(data.sampling_rate)}` : "",
      data.dropped_events > 0 ? "" : "no events lost"]
      .filter(Boolean).map((text) => make("span", { textContent: text }));
  }

  const titleOf = (data) =>
    data.title || (data.pid > 0 ? `${data.comm} (pid ${data.pid})` : data.comm) || "Profile";

  function measureCards(profile, chosen, onChoose) {
    return profile.measures.map(({ key, label }) => {
      const total = profile.total(key);
      const input = make("input", { type: "radio", name: "measure", value: key, checked: key === chosen });
      input.addEventListener("change", () => onChoose(key));
      return make("label", {}, input, make("span", { className: "label", textContent: label }),
        make("span", { className: "value", textContent: format.estimate(total.bytes, total.error) }),
        make("span", { className: "samples", textContent: `${format.count(total.samples)} samples` }));
    });
  }

  // The way from the root to the zoomed frame; the middle of a long one is left out.
  function crumbs(tree, zoom, onZoom) {
    const path = [];
    for (let node = zoom; node >= 0; node = tree.parent[node]) path.push(node);
    path.reverse();
    const name = (node) => tree.profile.name(tree.fn[node]);
    const step = (node) => {
      if (node === zoom) {
        const here = make("span", { textContent: name(node) });
        here.setAttribute("aria-current", "true");
        return here;
      }
      const button = make("button", { type: "button", textContent: name(node), title: name(node) });
      button.addEventListener("click", () => onZoom(node));
      return make("span", {}, button);
    };
    if (path.length <= CRUMBS) return path.map(step);
    const left = path.length - CRUMBS + 1;
    const gap = make("span", { textContent: `${format.count(left)} more` });
    return [step(path[0]), gap, ...path.slice(1 + left).map(step)];
  }

  // [term, words] about a frame.
  function factsOfFrame(tree, node, measureLabel) {
    const [total, samples] = [tree.total[node], tree.samples[node]];
    const rows = [[measureLabel, `${estimate(total, samples)}  (${format.share(total, tree.total[0])})`]];
    if (tree.parent[node] > 0) {
      const of = tree.inverted ? "Of the callee" : "Of the caller";
      rows.push([of, format.share(total, tree.total[tree.parent[node]])]);
    }
    const self = tree.inverted ? "Outermost" : "Self";
    const selfWords = estimate(tree.self[node], tree.selfSamples[node]);
    rows.push([self, `${selfWords}  (${format.share(tree.self[node], tree.total[0])})`]);
    rows.push(["Samples", `${format.count(samples)}, self ${format.count(tree.selfSamples[node])}`]);
    const lifetime = tree.lifetime(node);
    if (lifetime > 0) rows.push(["Typical lifetime", format.duration(lifetime)]);
    return rows;
  }

  // The contents of the tooltip for what onPoint of the graph tells.
  function tip(tree, item, measureLabel) {
    if (item.rest) {
      const { count, bytes } = item.rest;
      return [make("strong", { textContent: `${format.count(count)} smaller frames` }),
        make("div", { className: "where", textContent: `${format.bytes(bytes)}; zoom in to see them` })];
    }
    const fn = tree.fn[item.node];
    const list = make("dl");
    for (const [term, words] of factsOfFrame(tree, item.node, measureLabel)) {
      list.append(make("dt", { textContent: term }), make("dd", { textContent: words }));
    }
    return [make("strong", { textContent: tree.profile.name(fn) }),
      make("div", { className: "where", textContent: tree.profile.location(fn) }), list];
  }

  // Beside the pointer, inside of the window.
  function placeTip(element, { x, y }) {
    const { offsetWidth: w, offsetHeight: h } = element;
    element.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - w - 8))}px`;
    const isRoom = y + 18 + h < window.innerHeight - 4;
    element.style.top = `${isRoom ? y + 18 : Math.max(4, y - h - 12)}px`;
  }

  function topRow(profile, row, whole, onPick) {
    const name = profile.name(row.fn);
    const location = profile.location(row.fn);
    const title = "Search for this function";
    const button = make("button", { type: "button", textContent: name, title });
    button.addEventListener("click", () => onPick(name));
    const cell = (text, className = "") => make("td", { className, textContent: text });
    return make("tr", {}, make("td", { className: "text" }, button),
      cell(row.oneLine ? location : location.replace(/:\d+$/, ""), "text where"),
      cell(estimate(row.self, row.selfSamples)), cell(format.share(row.self, whole), "dim"),
      cell(estimate(row.total, row.samples)), cell(format.share(row.total, whole), "dim"),
      cell(format.count(row.samples), "dim"));
  }

  function topHead(sort, onSort) {
    const header = (text, className = "") => make("th", { scope: "col", className, textContent: text });
    const sorted = (key, text) => {
      const button = make("button", { type: "button", textContent: text });
      button.addEventListener("click", () => onSort(key));
      const cell = make("th", { scope: "col" }, button);
      if (key === sort) cell.setAttribute("aria-sort", "descending");
      return cell;
    };
    return make("thead", {}, make("tr", {}, header("Function", "text"), header("Location", "text"),
      sorted("self", "Self"), header("%"), sorted("total", "Total"), header("%"), header("Samples")));
  }

  // The functions with most of a measure, by "self" or "total".
  function topTable(tree, sort, onSort, onPick) {
    const { profile } = tree;
    const rows = [...tree.functions()];
    rows.sort((a, b) => b[sort] - a[sort] || b.total - a.total || a.fn - b.fn);
    const body = make("tbody");
    for (const row of rows.slice(0, TOP)) body.append(topRow(profile, row, tree.total[0], onPick));
    const children = [topHead(sort, onSort), body];
    return { children, shown: Math.min(TOP, rows.length), of: rows.length };
  }

  function key(colour, text) {
    const swatch = make("i");
    swatch.style.background = memprof.Colours.css(colour);
    return make("span", { className: "key" }, swatch, text);
  }

  // What the colours mean: the modules with most of the measure, or the scale.
  function legend(tree, colours) {
    if (colours.mode === "lifetime") {
      const scale = make("i", { className: "scale" });
      scale.style.background = `linear-gradient(90deg, ${colours.theme.scale.join(", ")})`;
      const { low, high } = colours.range;
      return [make("span", { textContent: "Median lifetime of the blocks that died" }),
        make("span", { className: "key" }, `≤ ${format.duration(low)}`, scale,
          `≥ ${format.duration(high)}`),
        key(colours.theme.unknown, "none died")];
    }
    const sums = new Map();
    const { profile } = tree;
    const self = profile.self[tree.key];
    for (let i = 1; i < profile.size; ++i) {
      const module = profile.module(profile.fn[i]);
      sums.set(module, (sums.get(module) ?? 0) + self[i]);
    }
    const first = [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).slice(0, 8);
    return first.map(([module]) => key(colours.ofModule(module), module || "no module (C, unknown)"));
  }

  memprof.panels = { crumbs, facts, legend, measureCards, placeTip, tip, titleOf, topTable };
})((globalThis.memprof ??= {}));
