// SPDX-License-Identifier: Apache-2.0
// The flame graph tab: the view's range, or the difference between two ranges.
import type { App, Panel } from "../app";
import { isAbort } from "../lib/api";
import { make } from "../lib/dom";
import * as format from "../lib/format";
import { isFlow } from "../lib/names";
import { searchOf, type View } from "../lib/state";
import { CallerTree, CallTree, type Tree } from "./call_tree";
import { Colours } from "./colours";
import { Controls } from "./controls";
import { describeFrame, describeFrames } from "./describe";
import { differenceOf } from "./difference";
import { addExporters } from "./exporters";
import { FlameGraph, type Item, type WindowPoint } from "./flame_graph";
import { frameMenu } from "./frame_menu";
import { openMenu } from "./menu";
import { optionsOf, setOptions } from "./options";
import * as panels from "./panels";
import { findStable, stablePath } from "./paths";
import type { Profile } from "./profile";
import { find, NOTHING } from "./search";
import { isFresh, keyOf, profileSource, type Loaded } from "./source";
import "./flame.css";
import "./panel.css";

export class FlamePanel implements Panel {
  readonly graph: FlameGraph;
  profile: Profile | null = null;  // the profile drawn: the target's, or a difference
  found = NOTHING;
  private loaded: Loaded | null = null;
  private readonly trees = new Map<string, Tree>();
  private madeOf = "";  // input of profile and trees
  private drawn = "";  // the last drawing
  private readonly controls: Controls;
  private readonly crumbs = make("nav", { className: "crumbs", "aria-label": "Callers of the frame that is shown" });
  private readonly place = make("div", { className: "graph" });
  private readonly legend = make("p", { className: "legend" });
  private readonly tip = make("div", { className: "tip", role: "tooltip", hidden: true });
  private readonly spoken = make("div", { className: "unseen", "aria-live": "polite" });
  private readonly hideTip = () => this.showTip(null);

  constructor(private readonly container: HTMLElement, readonly app: App) {
    this.controls = new Controls(app);
    container.append(this.controls.element, this.crumbs, this.place, this.legend, this.tip, this.spoken);
    this.graph = new FlameGraph(this.place, {
      onPoint: (item, place) => this.showTip(item, place),
      onZoom: (node) => this.zoom(node),
      onMenu: (node, place) => this.openMenu(node, place),
    });
    this.graph.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.reset();
    });
    window.addEventListener("scroll", this.hideTip, { passive: true });
    addExporters(app, this);
  }

  destroy(): void {
    window.removeEventListener("scroll", this.hideTip);
    this.graph.destroy();
    this.container.replaceChildren();
  }

  update(view: View): void {
    if (view.tab !== "flame" || view.pid === 0) return;
    if (!isFresh(this.loaded, view)) void this.load(view);
    this.render(view);
  }

  private async load(view: View): Promise<void> {
    try {
      this.loaded = await profileSource(this.app).get(view);
      this.update(this.app.store.get());
    } catch (error) {
      if (!isAbort(error)) this.controls.fail((error as Error).message);
    }
  }

  // ------------------------------------------------------------ trees

  // Rebuilds the profile if the loaded data or the kind of comparison has changed.
  private refresh(loaded: Loaded, view: View): void {
    const made = `${loaded.loadedMs} ${loaded.before ? optionsOf(view).width : ""}`;
    if (made === this.madeOf) return;
    this.madeOf = made;
    this.trees.clear();
    this.profile = loaded.before ? differenceOf(loaded.before, loaded.profile, optionsOf(view).width)
      : loaded.profile;
  }
  private treeOf(profile: Profile, view: View): Tree {
    const { inverted } = optionsOf(view);
    const name = `${inverted} ${view.measure}`;
    let tree = this.trees.get(name);
    if (tree === undefined) {
      tree = inverted ? new CallerTree(profile, view.measure) : new CallTree(profile, view.measure);
      this.trees.set(name, tree);
    }
    return tree;
  }

  // ------------------------------------------------------------ showing it

  private render(view: View): void {
    const { loaded } = this;
    if (loaded === null) return this.controls.show(view, null, null, NOTHING);
    const drawn = JSON.stringify([loaded.loadedMs, view.extra, view.measure, this.app.isDark(), view.compare]);
    if (drawn === this.drawn && this.place.clientWidth === this.graph.canvas.clientWidth) return;
    this.drawn = drawn;
    this.refresh(loaded, view);
    if (this.profile !== null) this.draw(view, this.profile);
  }

  private draw(view: View, profile: Profile): void {
    const options = optionsOf(view);
    const tree = this.treeOf(profile, view);
    const zoom = findStable(tree, options.zoom);
    const mode = profile.sides === null && options.colour === "change" ? "module" : options.colour;
    const colours = new Colours(profile, this.app.isDark(), mode);
    const selected = this.selectedPath();
    this.found = find(profile, view.measure, searchOf(view));
    this.crumbs.replaceChildren(...panels.crumbs(tree, zoom, (node) => this.zoom(node)));
    this.graph.show({ tree, zoom, colours, upwards: options.upwards, matches: this.found.matches });
    if (selected !== "") this.graph.selected = findStable(tree, selected) || -1;
    if (selected !== "") this.graph.redraw();
    this.graph.canvas.setAttribute("aria-label", this.description(tree, zoom));
    this.legend.replaceChildren(...panels.legend(tree, colours));
    if (this.graph.layout?.cut) this.legend.append("The deepest frames are not drawn: zoom in to see them.");
    this.controls.show(view, profile, tree, this.found);
  }

  // Path of the selection in the tree drawn last.
  private selectedPath(): string {
    const { view, selected } = this.graph;
    return view === null || selected < 0 ? "" : stablePath(view.tree, selected);
  }

  private description(tree: Tree, zoom: number): string {
    const name = tree.profile.name(tree.fn[zoom]);
    return `Flame graph of ${this.label()}, ${tree.inverted ? "callers" : "callees"} of ${name}. ` +
      "Arrow keys move between frames, Enter zooms, Escape resets, the menu key offers more.";
  }
  label(): string {
    const { measure } = this.app.store.get();
    return this.profile?.measures.find(({ key }) => key === measure)?.label ?? measure;
  }
  unit(): string {
    return isFlow(this.app.store.get().measure) && this.profile?.sides ? "/s" : "";
  }

  private showTip(item: Item | null, place: WindowPoint = { x: 0, y: 0 }): void {
    this.tip.hidden = item === null;
    const tree = this.graph.view?.tree;
    if (item === null || tree === undefined) return;
    this.tip.replaceChildren(...panels.tip(tree, item, this.label(), this.unit()));
    panels.placeTip(this.tip, place);
    if ("node" in item && item.node === this.graph.selected) this.spoken.textContent = this.tip.innerText;
  }

  // ------------------------------------------------------------ navigation

  private zoom(node: number): void {
    const tree = this.graph.view?.tree;
    if (tree === undefined) return;
    const zoom = stablePath(tree, node);
    if (zoom !== optionsOf(this.app.store.get()).zoom) setOptions(this.app.store, { zoom }, true);
  }
  reset(): void {
    this.graph.selected = -1;
    this.showTip(null);
    if (optionsOf(this.app.store.get()).zoom !== "") setOptions(this.app.store, { zoom: "" }, true);
    else this.graph.redraw();
  }
  private openMenu(node: number, place: WindowPoint): void {
    const tree = this.graph.view?.tree;
    if (tree === undefined) return;
    this.showTip(null);
    openMenu([{ label: "Zoom here", run: () => this.zoom(node) },
      ...frameMenu(this.app, tree.profile.name(tree.fn[node]))], place, tree.profile.name(tree.fn[node]));
  }

  // For scripts; null until something is drawn.
  describe(limit?: number): object | null {
    const { view, layout, selected } = this.graph;
    if (view === null || layout === null || this.loaded?.key !== keyOf(this.app.store.get())) return null;
    return { measure: view.tree.key, inverted: view.tree.inverted, upwards: view.upwards, colour: view.colours.mode,
      zoomed: describeFrame(this.graph, view.zoom), selected: selected < 0 ? null : describeFrame(this.graph, selected),
      matched: this.found.matches === null ? null : { bytes: this.found.bytes, functions: this.found.functions },
      isDifference: view.tree.sides !== null, rows: layout.rows.length, count: layout.frames,
      tookMs: this.loaded.tookMs, frames: describeFrames(this.graph, limit) };
  }

  // For captions and file names.
  title(): string {
    const target = this.app.target();
    return target ? `${target.comm} (pid ${target.pid})` : "memprofd";
  }
  subtitle(): string {
    const { profile } = this;
    if (profile === null) return "";
    const { data } = profile;
    const base = this.loaded?.before?.data;
    const time = format.timeRange(data.begin_unix_ms, data.end_unix_ms);
    const compared = base ? ` compared with ${format.timeRange(base.begin_unix_ms, base.end_unix_ms)}` : "";
    const total = profile.total(this.app.store.get().measure);
    return `${this.label()}: ${format.estimate(total.bytes, total.error)}${this.unit()}, ${time}${compared}`;
  }
}

export const mountFlame = (container: HTMLElement, app: App): FlamePanel => new FlamePanel(container, app);
