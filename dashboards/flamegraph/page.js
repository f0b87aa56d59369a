// The page: one view of one profile, and the controls that change it.
//
// The profile is the JSON in the element #data:
//
//   title            heading; "" for "comm (pid)"
//   pid, comm, runtime_version       of the target; 0 and "" when not known
//   begin_unix_ms, end_unix_ms       what time the profile covers, UTC
//   sampling_rate    samples per word
//   dropped_events   events lost in that time; what they would have added is missing
//   measures         [{"key": "live", "label": "Live", "unit": "bytes"}, ...], in the order shown;
//                    memprofd writes live, allocated, promoted, died_young and died_old
//   totals           {key: [bytes, standard error of bytes, samples]}
//   strings          names, each once
//   functions        [[name, file, line], ...]: name and file are indexes in strings; file is
//                    that of "" and line is 0 when not known
//   parent           by node: the node of its caller, always an earlier one; node 0 is the root,
//                    stands for no function and has parent -1
//   function         by node: index in functions (ignored for node 0). Siblings have different ones.
//   self, samples    {key: [by node]}: bytes, and samples, of the blocks allocated at exactly
//                    this callstack. Their sums are the totals.
//   lifetime_p50     by node: median seconds that those of its own blocks lived that died; null when
//                    none did. Without this column there is no colouring by lifetime.
//
// Bytes are estimates already scaled by the rate. The error of a sum of s samples is
// bytes / sqrt(s), which is exact for one sampling rate; the totals bring their own error.
//
// location.hash holds the view, as m=live&zoom=12&... (see toHash); what is not in it is default.
// window.flamegraph is for scripts: see the end.
(function (memprof) {
  "use strict";
  const { panels } = memprof;
  const at = (id) => document.getElementById(id);

  // Any combination is valid: what does not exist falls back to the default.
  function viewFromHash(hash, profile) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const keys = profile.measures.map(({ key }) => key);
    return {
      measure: keys.includes(given.get("m")) ? given.get("m") : keys[0],
      colour: given.get("colour") === "lifetime" && profile.lifetime ? "lifetime" : "module",
      upwards: given.get("root") !== "top",
      inverted: given.get("callers") === "1",
      sort: given.get("sort") === "total" ? "total" : "self",
      search: given.get("q") ?? "",
      zoom: given.get("zoom") ?? "",
    };
  }

  function toHash(view, profile) {
    const out = new URLSearchParams();
    if (view.measure !== profile.measures[0].key) out.set("m", view.measure);
    if (view.colour !== "module") out.set("colour", view.colour);
    if (!view.upwards) out.set("root", "top");
    if (view.inverted) out.set("callers", "1");
    if (view.sort !== "self") out.set("sort", view.sort);
    if (view.search !== "") out.set("q", view.search);
    if (view.zoom !== "") out.set("zoom", view.zoom);
    return `#${out}`;
  }

  class Page {
    constructor(profile) {
      this.profile = profile;
      this.dark = window.matchMedia("(prefers-color-scheme: dark)");
      this.trees = new Map();
      this.view = viewFromHash(location.hash, profile);
      this.showHeader();
      this.graph = new memprof.FlameGraph(at("graph"), {
        onPoint: (item, place) => this.showTip(item, place),
        onZoom: (node) => this.zoom(node),
      });
      this.listen();
      this.render();
    }

    listen() {
      this.dark.addEventListener("change", () => this.render());
      window.addEventListener("hashchange", () => {
        this.view = viewFromHash(location.hash, this.profile);
        this.render();
      });
      window.addEventListener("scroll", () => this.showTip(null), { passive: true });
      at("search").addEventListener("input", () => this.change({ search: at("search").value }));
      at("reset").addEventListener("click", () => this.reset());
      for (const button of document.querySelectorAll("[data-set]")) {
        const { set, value } = button.dataset;
        button.addEventListener("click", () => {
          const change = { [set]: set === "colour" ? value : value === "1" };
          this.change(set === "inverted" ? { ...change, zoom: "" } : change);
        });
      }
      document.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const search = at("search");
      if (event.key === "Escape") {
        this.reset();
        if (document.activeElement === search) this.graph.canvas.focus();
      } else if (event.key === "Enter" && document.activeElement === search) {
        this.graph.canvas.focus();
      } else if (event.key === "/" && document.activeElement !== search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }

    // ------------------------------------------------------------ the view

    // The trees of the last few measures are kept: going back and forth is at once.
    tree(inverted = this.view.inverted) {
      const name = `${inverted ? "callers" : "calls"} ${this.view.measure}`;
      let tree = this.trees.get(name);
      if (tree === undefined) {
        tree = new (inverted ? memprof.CallerTree : memprof.CallTree)(this.profile, this.view.measure);
        tree.key = this.view.measure;
        this.trees.set(name, tree);
      }
      return tree;
    }

    // A step that "back" undoes when isStep; else it replaces the last one.
    change(change, isStep = false) {
      this.view = { ...this.view, ...change };
      const hash = toHash(this.view, this.profile);
      // The address of a page that may not change it, such as one in a sandbox, stays.
      try {
        if (isStep) history.pushState(null, "", hash);
        else history.replaceState(null, "", hash);
      } catch (_) { /* as said */ }
      this.render();
    }
    zoom(node) {
      const zoom = this.tree().pathOf(node);
      if (zoom !== this.view.zoom) this.change({ zoom }, true);
    }
    reset() {
      this.graph.selected = -1;
      this.showTip(null);
      if (this.view.zoom !== "" || this.view.search !== "") this.change({ zoom: "", search: "" }, true);
      else this.graph.redraw();
    }

    // ------------------------------------------------------------ showing it

    showHeader() {
      const { data } = this.profile;
      document.title = `${panels.titleOf(data)} – flame graph`;
      at("title").textContent = panels.titleOf(data);
      at("facts").replaceChildren(...panels.facts(data));
      if (data.dropped_events > 0) {
        at("losses").hidden = false;
        at("losses").textContent = `${memprof.format.count(data.dropped_events)} events lost: ` +
          "what they held is missing from the numbers";
      }
      at("measures").append(...panels.measureCards(this.profile, this.view.measure,
        (measure) => this.change({ measure })));
      at("page").hidden = false;
    }

    render() {
      const tree = this.tree();
      const zoom = tree.find(this.view.zoom);
      const colours = new memprof.Colours(this.profile, this.dark.matches, this.view.colour);
      this.showTip(null);
      this.showControls();
      at("crumbs").replaceChildren(...panels.crumbs(tree, zoom, (node) => this.zoom(node)));
      this.graph.show({ tree, zoom, colours, upwards: this.view.upwards, matches: this.findMatches() });
      this.graph.canvas.setAttribute("aria-label", this.description(tree, zoom));
      at("legend").replaceChildren(...panels.legend(tree, colours));
      if (this.graph.layout.cut) {
        at("legend").append("The deepest frames are not drawn: zoom in to see them.");
      }
      this.showTop();
    }

    description(tree, zoom) {
      const label = this.label();
      const name = this.profile.name(tree.fn[zoom]);
      return `Flame graph of ${label}, ${tree.inverted ? "callers" : "callees"} of ${name}. ` +
        "Arrow keys move between frames, Enter zooms, Escape resets. The table below has the numbers.";
    }
    label() {
      return this.profile.measures.find(({ key }) => key === this.view.measure).label;
    }

    showControls() {
      const { view } = this;
      for (const input of document.querySelectorAll("#measures input")) {
        input.checked = input.value === view.measure;
      }
      for (const button of document.querySelectorAll("[data-set]")) {
        const now = view[button.dataset.set];
        const value = typeof now === "boolean" ? String(Number(now)) : now;
        button.setAttribute("aria-pressed", String(button.dataset.value === value));
        if (button.dataset.value === "lifetime") button.disabled = this.profile.lifetime === null;
      }
      if (at("search").value !== view.search) at("search").value = view.search;
    }

    // Tells how much matches; null when nothing is searched.
    findMatches() {
      const { search, measure } = this.view;
      at("search").setAttribute("aria-invalid", "false");
      this.matched = null;
      at("matched").replaceChildren();
      if (search === "") return null;
      let regexp;
      try {
        // Small letters only: either case.
        regexp = new RegExp(search, search === search.toLowerCase() ? "iu" : "u");
      } catch (_) {
        at("search").setAttribute("aria-invalid", "true");
        at("matched").textContent = "not a regular expression";
        return null;
      }
      const matches = this.profile.matching(regexp);
      this.matched = { bytes: this.profile.matchedBytes(measure, matches),
        functions: matches.reduce((sum, one) => sum + one, 0) };
      const share = document.createElement("b");
      share.textContent = memprof.format.share(this.matched.bytes, this.tree().total[0]);
      at("matched").append(share, ` matched, ${memprof.format.bytes(this.matched.bytes)}`);
      return matches;
    }

    showTip(item, place) {
      const tip = at("tip");
      tip.hidden = item === null;
      if (item === null) return;
      tip.replaceChildren(...panels.tip(this.tree(), item, this.label()));
      panels.placeTip(tip, place);
      if (item.node === this.graph.selected) at("spoken").textContent = tip.innerText;
    }

    showTop() {
      const sort = (key) => this.change({ sort: key });
      const escaped = (name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
      const top = panels.topTable(this.tree(false), this.view.sort, sort,
        (name) => this.change({ search: `^${escaped(name)}$` }, true));
      at("top-heading").textContent = `Top functions by ${this.label().toLowerCase()}` +
        (top.of > top.shown ? `, ${top.shown} of ${memprof.format.count(top.of)}` : "");
      at("top").replaceChildren(...top.children);
    }
  }

  // For scripts: what is shown, and the ways to change it.
  function scriptInterface(page) {
    const { graph } = page;
    const frame = (node, box = graph.boxOf(node)) => {
      const tree = page.tree();
      return { node, name: page.profile.name(tree.fn[node]), location: page.profile.location(tree.fn[node]),
        depth: tree.depth[node], total: tree.total[node], self: tree.self[node],
        samples: tree.samples[node], selfSamples: tree.selfSamples[node], lifetime: tree.lifetime(node),
        error: memprof.errorOf(tree.total[node], tree.samples[node]), box,
        matched: graph.view.matches?.[tree.fn[node]] === 1 };
    };
    return {
      // The view and what it comes to.
      state: () => ({ ...page.view, zoomed: frame(graph.view.zoom), matched: page.matched,
        selected: graph.selected < 0 ? null : frame(graph.selected),
        dark: page.dark.matches, rows: graph.layout.rows.length, frames: graph.layout.frames }),
      // The frames of the layout, the root first, at most so many; box is in window
      // coordinates, also out of sight.
      frames: (limit = 10_000) => {
        const out = [];
        graph.layout.rows.forEach((row, depth) => {
          for (let i = 0; i < row.nodes.length && out.length < limit; ++i) {
            if (row.nodes[i] >= 0) out.push(frame(row.nodes[i], graph.boxAt(depth, i)));
          }
        });
        return out;
      },
      // Changes parts of the view: measure, colour, upwards, inverted, sort, search, zoom.
      set: (change) => page.change(change),
      reset: () => page.reset(),
      // Lays out and draws; returns when done.
      redraw: () => graph.redraw(),
    };
  }

  function start() {
    try {
      const profile = new memprof.Profile(JSON.parse(at("data").textContent));
      window.flamegraph = scriptInterface(new Page(profile));
    } catch (error) {
      at("error").textContent = `This profile cannot be shown: ${error.message}`;
      at("error").hidden = false;
      at("page").hidden = true;
    }
  }
  start();
})((globalThis.memprof ??= {}));
