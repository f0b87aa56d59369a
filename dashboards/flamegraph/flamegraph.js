// A flame graph on a canvas: draws one tree, and tells what is pointed at.
//
//   const graph = new memprof.FlameGraph(element, { onPoint, onZoom });
//   graph.show({ tree, colours, zoom: 0, upwards: true });
//
// element scrolls when the graph is taller than it is; the canvas is only as
// large as what is seen of it. onPoint(item, {x, y}) is called with what is under
// the pointer or selected, null for nothing: {node} or {rest: {count, bytes}, of},
// and where in the window it is; onZoom(node) asks to zoom, the owner decides.
(function (memprof) {
  "use strict";

  const ROW = 20;  // CSS pixels
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
  const MIN_LABEL = 26;

  class FlameGraph {
    constructor(element, { onPoint = () => {}, onZoom = () => {} } = {}) {
      this.element = element;
      this.onPoint = onPoint;
      this.onZoom = onZoom;
      this.view = { tree: null, colours: null, zoom: 0, upwards: true, matches: null };
      this.selected = -1;
      this.hovered = -1;
      this.widths = new Map();  // of names in FONT
      this.frame = 0;
      this.scrolledTo = -1;  // by ourselves
      this.sheet = document.createElement("div");
      this.canvas = document.createElement("canvas");
      this.sheet.append(this.canvas);
      element.append(this.sheet);
      this.context = this.canvas.getContext("2d");
      this.#listen();
    }

    #listen() {
      const { canvas, element } = this;
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "application");
      canvas.setAttribute("aria-roledescription", "flame graph");
      canvas.addEventListener("mousemove", (event) => this.#point(event));
      canvas.addEventListener("mouseleave", () => this.#leave());
      canvas.addEventListener("click", (event) => this.#click(event));
      canvas.addEventListener("keydown", (event) => this.#key(event));
      canvas.addEventListener("blur", () => this.onPoint(null));
      element.addEventListener("scroll", () => {
        if (element.scrollTop !== this.scrolledTo) this.onPoint(null);
        this.#soon();
      });
      new ResizeObserver(() => {
        if (this.width !== element.clientWidth || this.height !== element.clientHeight) this.redraw();
      }).observe(element);
    }

    // Changes what is drawn: tree, colours, zoom, upwards (root below), matches
    // (by function, or null). What is left out stays.
    show(change) {
      const before = this.view;
      this.view = { ...before, ...change };
      const { tree, zoom, upwards } = this.view;
      if (tree !== before.tree) this.selected = this.hovered = -1;
      this.redraw();
      if (tree !== before.tree || zoom !== before.zoom || upwards !== before.upwards) {
        this.#scrollToRow(tree.depth[zoom], true);
        this.#draw();
      }
    }

    // Lays out and draws at once.
    redraw() {
      if (this.view.tree === null) return;
      this.width = this.element.clientWidth;
      this.layout = new memprof.Layout(this.view.tree, this.view.zoom, this.width);
      this.sheet.style.height = `${this.layout.rows.length * ROW}px`;
      // A scroll bar may have come or gone.
      if (this.width !== this.element.clientWidth) {
        this.width = this.element.clientWidth;
        this.layout = new memprof.Layout(this.view.tree, this.view.zoom, this.width);
      }
      this.height = this.element.clientHeight;
      if (this.layout.indexOf(this.selected) < 0) this.selected = -1;
      this.#draw();
    }

    // ------------------------------------------------------------ places

    // Distance of a row from the top of the sheet.
    #top(depth) {
      return (this.view.upwards ? this.layout.rows.length - 1 - depth : depth) * ROW;
    }
    #scrollToRow(depth, center) {
      const top = this.#top(depth);
      const { element, height } = this;
      if (top >= element.scrollTop && top + ROW <= element.scrollTop + height && !center) return;
      // The root's side of the zoomed frame matters less than what is below it.
      const space = center ? (this.view.upwards ? height - 3 * ROW : 2 * ROW) : height / 2;
      element.scrollTop = Math.max(0, top - space);
      this.scrolledTo = element.scrollTop;
    }
    #placeOf(event) {
      const box = this.canvas.getBoundingClientRect();
      const x = event.clientX - box.left;
      const fromTop = Math.floor((event.clientY - box.top + this.element.scrollTop) / ROW);
      const depth = this.view.upwards ? this.layout.rows.length - 1 - fromTop : fromTop;
      const index = this.layout.indexAt(depth, x);
      return index < 0 ? null : { depth, index, node: this.layout.rows[depth].nodes[index] };
    }
    // Where something is drawn, in window coordinates, also when it is scrolled out of sight.
    boxAt(depth, index) {
      const row = this.layout.rows[depth];
      const box = this.canvas.getBoundingClientRect();
      return { x: box.left + row.x[index], y: box.top + this.#top(depth) - this.element.scrollTop,
        width: row.w[index], height: ROW };
    }
    // The same of a node; null when it is not in the layout.
    boxOf(node) {
      const index = this.layout.indexOf(node);
      return index < 0 ? null : this.boxAt(this.view.tree.depth[node], index);
    }

    // ------------------------------------------------------------ input

    #point(event) {
      const place = this.#placeOf(event);
      const at = { x: event.clientX, y: event.clientY };
      this.canvas.style.cursor = place !== null && place.node >= 0 ? "pointer" : "default";
      if (place === null) this.onPoint(null);
      else if (place.node >= 0) this.onPoint({ node: place.node }, at);
      else this.onPoint({ rest: this.layout.restAt(place.depth, place.index), of: ~place.node }, at);
      this.#hover(place !== null && place.node >= 0 ? place.node : -1);
    }
    #leave() {
      this.onPoint(null);
      this.#hover(-1);
    }
    #hover(node) {
      if (node === this.hovered) return;
      this.hovered = node;
      this.#soon();
    }
    #click(event) {
      const place = this.#placeOf(event);
      if (place === null || place.node < 0) return;
      this.selected = place.node;
      this.onZoom(place.node);
    }

    select(node) {
      this.selected = node;
      this.#scrollToRow(this.view.tree.depth[node], false);
      this.#draw();
      const box = this.boxOf(node);
      if (box) this.onPoint({ node }, { x: box.x + Math.min(box.width / 2, 120), y: box.y + ROW });
    }

    #key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const deeper = this.view.upwards ? "ArrowUp" : "ArrowDown";
      const node = this.selected < 0 ? this.view.zoom : this.selected;
      let next = -1;
      if (event.key === "Enter") return void this.onZoom(node);
      if (event.key === "Home") next = 0;
      else if (event.key === "ArrowLeft") next = this.#beside(node, -1);
      else if (event.key === "ArrowRight") next = this.#beside(node, 1);
      else if (event.key === deeper) next = this.selected < 0 ? node : this.#childOf(node);
      else if (event.key === "ArrowUp" || event.key === "ArrowDown") next = this.view.tree.parent[node];
      else return;
      event.preventDefault();
      if (next >= 0) this.select(next);
    }
    #beside(node, step) {
      const nodes = this.layout.rows[this.view.tree.depth[node]].nodes;
      let i = nodes.indexOf(node) + step;
      while (i >= 0 && i < nodes.length && nodes[i] < 0) i += step;
      return nodes[i] ?? -1;
    }
    #childOf(node) {
      const below = this.layout.rows[this.view.tree.depth[node] + 1];
      return below?.nodes.find((other) => other >= 0 && this.view.tree.parent[other] === node) ?? -1;
    }

    // ------------------------------------------------------------ drawing

    #soon() {
      if (this.frame !== 0) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        if (this.layout) this.#draw();
      });
    }

    #draw() {
      const { canvas, context, width, height, layout } = this;
      const ratio = window.devicePixelRatio || 1;
      const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== w || canvas.height !== h) {
        [canvas.width, canvas.height] = [w, h];
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.font = FONT;
      context.textBaseline = "middle";
      const scrolled = this.element.scrollTop;
      const seen = [];
      for (let depth = 0; depth < layout.rows.length; ++depth) {
        const y = this.#top(depth) - scrolled;
        if (y > -ROW && y < height) seen.push([layout.rows[depth], depth, y]);
      }
      this.#paint(seen, ratio);
      for (const [row, depth, y] of seen) this.#drawLabels(row, depth, y);
      this.#outline(this.hovered, 1, scrolled);
      this.#outline(this.selected, 2, scrolled);
    }

    // The frames pixel by pixel, so that the time depends little on how many there are.
    #paint(rows, ratio) {
      const { width, height } = this.canvas;
      if (width === 0 || height === 0) return;
      if (this.image?.width !== width || this.image.height !== height) {
        this.image = new ImageData(width, height);
      }
      const pixels = new Uint32Array(this.image.data.buffer).fill(0);
      const line = new Uint32Array(width);
      for (const [row, depth, y] of rows) {
        this.#paintLine(line.fill(0), row, depth, ratio);
        const bottom = Math.min(height, Math.round((y + ROW - 1) * ratio));
        for (let at = Math.max(0, Math.round(y * ratio)); at < bottom; ++at) {
          pixels.set(line, at * width);
        }
      }
      this.context.putImageData(this.image, 0, 0);
    }

    // One line of a row's pixels. Of the frames that share a pixel the first is
    // seen, which is the largest.
    #paintLine(line, row, depth, ratio) {
      const { tree, colours, matches, zoom } = this.view;
      const { theme } = colours;
      const { faded } = memprof.Colours;
      const isAbove = depth < tree.depth[zoom];
      let done = 0;
      for (let i = 0; i < row.nodes.length; ++i) {
        const node = row.nodes[i];
        const left = Math.max(Math.round(row.x[i] * ratio), done);
        const right = Math.round((row.x[i] + row.w[i]) * ratio);
        if (right <= left) continue;
        done = right;
        const isMatch = node > 0 && matches !== null && matches[tree.fn[node]] === 1;
        const colour = node < 0 ? theme.rest : isMatch ? theme.match : colours.of(tree, node);
        const isFaded = isAbove || (matches !== null && !isMatch);
        line.fill(isFaded ? faded(colour) : colour, left, right - left > 3 ? right - 1 : right);
      }
    }

    #drawLabels(row, depth, y) {
      const { context } = this;
      const { tree, colours, matches, zoom } = this.view;
      for (let i = 0; i < row.nodes.length; ++i) {
        if (row.w[i] < MIN_LABEL) continue;
        const node = row.nodes[i];
        const text = node < 0 ? "…" : this.#fitted(tree.fn[node], row.w[i] - 10);
        if (text === "") continue;
        const isMatch = node > 0 && matches !== null && matches[tree.fn[node]] === 1;
        const isFaded = depth < tree.depth[zoom] || (matches !== null && !isMatch);
        context.globalAlpha = isFaded ? 0.7 : 1;
        context.fillStyle = isMatch ? colours.theme.matchText : colours.theme.text;
        context.fillText(text, row.x[i] + 5, y + ROW / 2);
      }
      context.globalAlpha = 1;
    }

    #outline(node, thickness, scrolled) {
      const index = this.layout.indexOf(node);
      if (index < 0) return;
      const { context } = this;
      const depth = this.view.tree.depth[node];
      const row = this.layout.rows[depth];
      const inset = thickness / 2;
      context.strokeStyle = this.view.colours.theme.outline;
      context.lineWidth = thickness;
      context.strokeRect(row.x[index] + inset, this.#top(depth) - scrolled + inset,
        Math.max(row.w[index] - 0.75 - thickness, 1), ROW - 1 - thickness);
    }

    #widthOf(text) {
      let width = this.widths.get(text);
      if (width === undefined) {
        width = this.context.measureText(text).width;
        this.widths.set(text, width);
      }
      return width;
    }

    // The name, without its module where space is short, cut where it is shorter still.
    #fitted(fn, space) {
      const { profile } = this.view.tree;
      const name = profile.name(fn);
      if (this.#widthOf(name) <= space) return name;
      const module = profile.module(fn);
      const short = module === "" ? name : name.slice(module.length + 1);
      const width = this.#widthOf(short);
      if (width <= space) return short;
      const letters = Math.floor((space - 10) / (width / short.length));
      return letters < 2 ? "" : `${short.slice(0, letters)}…`;
    }
  }

  memprof.FlameGraph = FlameGraph;
})((globalThis.memprof ??= {}));
