// SPDX-License-Identifier: Apache-2.0
// The page that `memprofctl report -o html` writes: one view of one profile, with controls to change it. The profile
// is the JSON in the element #data (see profile.ts).
//
// location.hash holds the view as m=live&zoom=12&... (see toHash); missing parts have their defaults.
// window.flamegraph is for scripts: see scriptInterface.
import "../theme.css";
import "./flame.css";
import "./offline.css";
import { make } from "../lib/dom";
import * as format from "../lib/format";
import { escapeRegExp } from "../lib/text";
import { CallerTree, CallTree, type Tree } from "./call_tree";
import { Colours, type ColourMode } from "./colours";
import { describeFrame, describeFrames } from "./describe";
import { FlameGraph, type Item, type WindowPoint } from "./flame_graph";
import * as panels from "./panels";
import { Profile } from "./profile";
import { find, NOTHING } from "./search";

interface PageView {
  measure: string;
  colour: ColourMode;
  upwards: boolean;
  inverted: boolean;
  sort: panels.TopSort;
  search: string;
  zoom: string;
}

const at = (id: string) => document.getElementById(id) as HTMLElement;
const search = () => at("search") as HTMLInputElement;

// Accepts any input; invalid parts get their defaults.
function viewFromHash(hash: string, profile: Profile): PageView {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const keys = profile.measures.map(({ key }) => key);
  const measure = given.get("m") ?? "";
  return {
    measure: keys.includes(measure) ? measure : keys[0],
    colour: given.get("colour") === "lifetime" && profile.lifetime ? "lifetime" : "module",
    upwards: given.get("root") !== "top",
    inverted: given.get("callers") === "1",
    sort: given.get("sort") === "total" ? "total" : "self",
    search: given.get("q") ?? "",
    zoom: given.get("zoom") ?? "",
  };
}

function toHash(view: PageView, profile: Profile): string {
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
  readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  readonly graph: FlameGraph;
  view: PageView;
  found = NOTHING;
  private readonly trees = new Map<string, Tree>();

  constructor(readonly profile: Profile) {
    this.view = viewFromHash(location.hash, profile);
    this.showHeader();
    this.graph = new FlameGraph(at("graph"), {
      onPoint: (item, place) => this.showTip(item, place),
      onZoom: (node) => this.zoom(node),
    });
    this.listen();
    this.render();
  }

  private listen(): void {
    this.dark.addEventListener("change", () => this.render());
    window.addEventListener("hashchange", () => {
      this.view = viewFromHash(location.hash, this.profile);
      this.render();
    });
    window.addEventListener("scroll", () => this.showTip(null), { passive: true });
    search().addEventListener("input", () => this.change({ search: search().value }));
    at("reset").addEventListener("click", () => this.reset());
    for (const button of document.querySelectorAll<HTMLElement>("[data-set]")) {
      const { set, value } = button.dataset as { set: string; value: string };
      button.addEventListener("click", () => {
        const change = { [set]: set === "colour" ? value : value === "1" };
        this.change(set === "inverted" ? { ...change, zoom: "" } : change);
      });
    }
    document.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const isSearching = document.activeElement === search();
    if (event.key === "Escape") {
      this.reset();
      if (isSearching) this.graph.canvas.focus();
    } else if (event.key === "Enter" && isSearching) {
      this.graph.canvas.focus();
    } else if (event.key === "/" && !isSearching) {
      event.preventDefault();
      search().focus();
      search().select();
    }
  }

  // ------------------------------------------------------------ the view

  // Keeps all trees, so that switching back is immediate.
  private kept<T extends Tree>(name: string, makeTree: () => T): T {
    const tree = (this.trees.get(name) as T | undefined) ?? makeTree();
    this.trees.set(name, tree);
    return tree;
  }
  private calls(): CallTree {
    const { measure } = this.view;
    return this.kept(`calls ${measure}`, () => new CallTree(this.profile, measure));
  }
  tree(): Tree {
    const { measure, inverted } = this.view;
    return inverted ? this.kept(`callers ${measure}`, () => new CallerTree(this.profile, measure))
      : this.calls();
  }

  // isStep makes it a step that "back" undoes; otherwise it replaces the last one.
  change(change: Partial<PageView>, isStep = false): void {
    this.view = { ...this.view, ...change };
    const hash = toHash(this.view, this.profile);
    // A sandboxed page may not change its address; it then stays the same.
    try {
      if (isStep) history.pushState(null, "", hash);
      else history.replaceState(null, "", hash);
    } catch { /* see above */ }
    this.render();
  }
  private zoom(node: number): void {
    const zoom = this.tree().pathOf(node);
    if (zoom !== this.view.zoom) this.change({ zoom }, true);
  }
  reset(): void {
    this.graph.selected = -1;
    this.showTip(null);
    if (this.view.zoom !== "" || this.view.search !== "") this.change({ zoom: "", search: "" }, true);
    else this.graph.redraw();
  }

  // ------------------------------------------------------------ showing it

  private showHeader(): void {
    const { data } = this.profile;
    document.title = `${panels.titleOf(data)} – flame graph`;
    at("title").textContent = panels.titleOf(data);
    at("facts").replaceChildren(...panels.facts(data));
    if (data.dropped_events > 0) {
      at("losses").hidden = false;
      at("losses").textContent = `${format.count(data.dropped_events)} events lost: ` +
        "their memory is missing from the numbers";
    }
    at("measures").append(...panels.measureCards(this.profile, this.view.measure,
      (measure) => this.change({ measure })));
    at("page").hidden = false;
  }

  private render(): void {
    const tree = this.tree();
    const zoom = tree.find(this.view.zoom);
    const colours = new Colours(this.profile, this.dark.matches, this.view.colour);
    this.showTip(null);
    this.showControls();
    this.search();
    at("crumbs").replaceChildren(...panels.crumbs(tree, zoom, (node) => this.zoom(node)));
    this.graph.show({ tree, zoom, colours, upwards: this.view.upwards, matches: this.found.matches });
    this.graph.canvas.setAttribute("aria-label", this.description(tree, zoom));
    at("legend").replaceChildren(...panels.legend(tree, colours));
    if (this.graph.layout?.cut) {
      at("legend").append("The deepest frames are not drawn: zoom in to see them.");
    }
    this.showTop();
  }

  private description(tree: Tree, zoom: number): string {
    const name = this.profile.name(tree.fn[zoom]);
    return `Flame graph of ${this.label()}, ${tree.inverted ? "callers" : "callees"} of ${name}. ` +
      "Arrow keys move between frames, Enter zooms, Escape resets. The table below has the numbers.";
  }
  private label(): string {
    return this.profile.measures.find(({ key }) => key === this.view.measure)?.label ?? "";
  }

  private showControls(): void {
    for (const input of document.querySelectorAll<HTMLInputElement>("#measures input")) {
      input.checked = input.value === this.view.measure;
    }
    for (const button of document.querySelectorAll<HTMLButtonElement>("[data-set]")) {
      const now = this.view[button.dataset["set"] as keyof PageView];
      const value = typeof now === "boolean" ? String(Number(now)) : now;
      button.setAttribute("aria-pressed", String(button.dataset["value"] === value));
      if (button.dataset["value"] === "lifetime") button.disabled = this.profile.lifetime === null;
    }
    if (search().value !== this.view.search) search().value = this.view.search;
  }

  // Searches, and reports how much matches.
  private search(): void {
    this.found = find(this.profile, this.view.measure, this.view.search);
    const { isValid, matches, bytes } = this.found;
    search().setAttribute("aria-invalid", String(!isValid));
    if (!isValid) return at("matched").replaceChildren("not a regular expression");
    if (matches === null) return at("matched").replaceChildren();
    at("matched").replaceChildren(make("b", {}, format.share(bytes, this.tree().total[0])),
      ` matched, ${format.bytes(bytes)}`);
  }

  private showTip(item: Item | null, place: WindowPoint = { x: 0, y: 0 }): void {
    const tip = at("tip");
    tip.hidden = item === null;
    if (item === null) return;
    tip.replaceChildren(...panels.tip(this.tree(), item, this.label()));
    panels.placeTip(tip, place);
    if ("node" in item && item.node === this.graph.selected) at("spoken").textContent = tip.innerText;
  }

  private showTop(): void {
    const top = panels.topTable(this.calls(), this.view.sort, (sort) => this.change({ sort }),
      (name) => this.change({ search: `^${escapeRegExp(name)}$` }, true));
    at("top-heading").textContent = `Top functions by ${this.label().toLowerCase()}` +
      (top.of > top.shown ? `, ${top.shown} of ${format.count(top.of)}` : "");
    at("top").replaceChildren(...top.children);
  }
}

// For scripts: the current view, and functions to change it.
function scriptInterface(page: Page) {
  const { graph } = page;
  const frame = (node: number) => describeFrame(graph, node);
  const matched = () => (page.found.matches === null ? null
    : { bytes: page.found.bytes, functions: page.found.functions });
  return {
    // The view and its results.
    state: () => ({ ...page.view, zoomed: frame(graph.view?.zoom ?? 0), matched: matched(),
      selected: graph.selected < 0 ? null : frame(graph.selected),
      dark: page.dark.matches, rows: graph.layout?.rows.length, frames: graph.layout?.frames }),
    // See describeFrames.
    frames: (limit?: number) => describeFrames(graph, limit),
    // Changes parts of the view: measure, colour, upwards, inverted, sort, search, zoom.
    set: (change: Partial<PageView>) => page.change(change),
    reset: () => page.reset(),
    // Lays out and draws synchronously.
    redraw: () => graph.redraw(),
  };
}

function start(): void {
  try {
    const profile = new Profile(JSON.parse(at("data").textContent ?? ""));
    Object.assign(window, { flamegraph: scriptInterface(new Page(profile)) });
  } catch (error) {
    at("error").textContent = `This profile cannot be shown: ${(error as Error).message}`;
    at("error").hidden = false;
    at("page").hidden = true;
  }
}
start();
