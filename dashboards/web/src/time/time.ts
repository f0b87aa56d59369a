// SPDX-License-Identifier: Apache-2.0
// Controls of time: live or a past moment, replay, the counted range, and the range to compare with.
import "./time.css";
import type { App, Panel } from "../app";
import { button, make, select } from "../lib/dom";
import { duration } from "../lib/format";
import type { View } from "../lib/state";
import { clock, clockRange, zone } from "../lib/axis";
import { around, at, before, chosen, live, stepOf, zoom } from "./moves";
import { Replay } from "./replay";
import { Strip } from "./strip";

const SPANS: [string, string][] = [["60", "1 min"], ["300", "5 min"], ["600", "10 min"], ["3600", "1 h"],
  ["21600", "6 h"], ["86400", "24 h"], ["0", "everything"]];
const SPEEDS: [string, string][] = ["1", "10", "60", "600"].map((n) => [n, `${n}×`]);

export function mountTime(container: HTMLElement, app: App): Panel {
  return new Time(container, app);
}

class Time implements Panel {
  private readonly strip: Strip;
  private readonly replay: Replay;
  private readonly follow = button("Pause", () => this.toggle(), { className: "button live", title: "Pause or resume (space)" });
  private readonly play = button("Replay", () => this.togglePlay(), { className: "button", title: "Play the recording (r)" });
  private readonly span = select("Time span", SPANS, (span) =>
    this.app.store.update({ span: Number(span), axis: undefined }, true));
  private readonly speed = select("Replay speed", SPEEDS, (speed) => { this.replay.speed = Number(speed); });
  private readonly state = make("span", { className: "state", "aria-live": "off" });
  private readonly axis = make("span", { className: "muted axis" });
  private readonly fit = button("Fit", () => this.app.store.update({ axis: undefined }), { className: "button", title: "Reset the zoom (0)" });
  private readonly ranges = make("div", { className: "ranges" });
  private shownRanges = "";
  private readonly keys = (event: KeyboardEvent) => this.key(event);

  constructor(container: HTMLElement, private readonly app: App) {
    this.strip = new Strip(app);
    this.replay = new Replay(app, () => this.update(app.store.get()));
    this.speed.set("10");
    const step = (count: number) => () => this.step(count);
    const bar = make("div", { className: "time-bar" }, this.follow,
      button("‹", step(-1), { className: "button", "aria-label": "Step back", title: "Step back (←)" }),
      button("›", step(1), { className: "button", "aria-label": "Step forward", title: "Step forward (→)" }),
      this.play, this.speed.element, this.state, make("span", { className: "space" }), this.axis, this.span.element,
      button("−", () => this.zoom(2), { className: "button", "aria-label": "Zoom out", title: "Zoom out (-)" }),
      button("+", () => this.zoom(0.5), { className: "button", "aria-label": "Zoom in", title: "Zoom in (+)" }), this.fit);
    container.append(make("div", { className: "card time" }, bar, this.strip.element, this.ranges));
    document.addEventListener("keydown", this.keys);
  }

  destroy(): void {
    document.removeEventListener("keydown", this.keys);
    this.replay.stop();
    this.strip.destroy();
  }

  update(view: View): void {
    const { now } = this.app.recorded();
    this.follow.textContent = view.live ? "❚❚ Pause" : "● Go live";
    this.follow.classList.toggle("primary", !view.live);
    this.play.textContent = this.replay.isRunning ? "Stop" : "▶ Replay";
    this.span.set(String(view.span));
    this.axis.textContent = `${clockRange(this.app.axis())} ${zone()}`;
    this.fit.disabled = view.axis === undefined;
    this.state.classList.toggle("follows", view.live && this.app.runs());
    this.state.textContent = view.live || view.end === undefined ? this.app.runs() ? "Live" : "Ended"
      : `${this.replay.isRunning ? "Replaying" : "At"} ${clock(view.end)}, ${duration((now - view.end) / 1000)} ago; recording continues`;
    this.strip.update(view);
    this.showRanges(view, now);
  }

  // ------------------------------------------------------------ input

  private toggle(): void {
    const { store } = this.app, view = store.get();
    this.replay.stop();
    if (view.live) store.update(at(view, this.app.axis(), this.app.recorded().now, this.app.recorded()), true);
    else store.update(live(view), true);
  }

  private togglePlay(): void {
    if (this.replay.isRunning) this.replay.stop();
    else this.replay.start();
  }

  private step(count: number): void {
    const { store } = this.app, view = store.get(), recorded = this.app.recorded(), axis = this.app.axis();
    store.update(at(view, axis, (view.end ?? recorded.now) + count * stepOf(axis), recorded));
  }

  private zoom(factor: number): void {
    const { store } = this.app;
    store.update({ axis: zoom(this.app.axis(), factor, store.get(), this.app.recorded()) });
  }

  // Handles keys of the whole page, unless the focused element takes keys itself.
  private key(event: KeyboardEvent): void {
    const at = event.target instanceof Element ? event.target : document.body;
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (at.closest("input, select, textarea, dialog, canvas, [role=menu], [role=tab]")) return;
    const far = event.shiftKey ? 10 : 1;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.step(-far), ArrowRight: () => this.step(far), r: () => this.togglePlay(),
      "+": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.app.store.update({ axis: undefined }),
      l: () => { this.replay.stop(); this.app.store.update(live(this.app.store.get()), true); },
    };
    if (!at.closest("button, a, summary")) actions[" "] = () => this.toggle();
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // ------------------------------------------------------------ ranges

  private showRanges(view: View, now: number): void {
    const range = chosen(view, now), { store } = this.app, recorded = this.app.recorded();
    const shown = JSON.stringify([view.begin, view.live ? 0 : view.end, view.compare]);
    if (shown === this.shownRanges) return;
    this.shownRanges = shown;
    const small = (text: string, act: () => void, title: string) => button(text, act, { className: "button small", title });
    const parts: (Node | string)[] = [make("span", { className: "muted" }, "Counted:")];
    if (!range) {
      parts.push(make("span", {}, view.live ? "since the attach" : `from the attach to ${clock(view.end ?? now)}`),
        make("span", { className: "muted hint" }, "Drag over the chart to count a range of time only."));
    } else {
      parts.push(make("span", { className: "chip chosen" }, `${clockRange(range)} (${duration((range.end - range.begin) / 1000)})`,
        button("✕", () => store.update({ begin: undefined }, true), { "aria-label": "Count since the attach" })),
        small("Zoom to it", () => store.update({ axis: around(range, recorded) }, true), "The time axis shows this range"),
        small("Compare with before", () => store.update({ compare: before(range, recorded) }, true),
          "Compare with the equally long time just before"),
        small("Set as base", () => store.update({ compare: range }, true),
          "Then drag over another range: it is compared with this one"));
    }
    if (view.compare) {
      parts.push(make("span", { className: "muted" }, "compared with"),
        make("span", { className: "chip base" }, clockRange(view.compare),
          button("✕", () => store.update({ compare: undefined }, true), { "aria-label": "Stop comparing" })));
    }
    this.ranges.replaceChildren(...parts);
  }
}
