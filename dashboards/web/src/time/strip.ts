// SPDX-License-Identifier: Apache-2.0
// All recorded time as a narrow chart and a slider for the cursor.
import { Api, isAbort, type HistoryAnswer } from "../lib/api";
import type { App } from "../app";
import { paletteOf } from "../lib/palette";
import { make } from "../lib/dom";
import { estimate, interval } from "../lib/format";
import type { Range, View } from "../lib/state";
import { clock } from "../lib/axis";
import { at, live, stepOf } from "./moves";

const HEIGHT = 46;
const REFRESH_MS = 10_000;
const FOOT = 4; // pixels below the areas
const KNOB = 5; // radius of the cursor's head
const PEAK = 4; // half the width of the mark of the peak

const peakText = (answer: HistoryAnswer): string =>
  `${estimate(answer.peak_live_bytes, answer.peak_live_bytes_stderr)} ` +
  `(${interval(answer.peak_live_bytes_lower, answer.peak_live_bytes_upper)})`;

export class Strip {
  readonly element = make("div", { className: "strip", role: "slider", tabIndex: 0,
    "aria-label": "Cursor in the recorded history" });
  private readonly canvas = make("canvas");
  private readonly api = new Api();
  private answer: HistoryAnswer | null = null;
  private pid = 0;
  private next = 0;
  private readonly resized = new ResizeObserver(() => this.draw());

  constructor(private readonly app: App) {
    this.element.append(this.canvas);
    this.resized.observe(this.element);
    this.element.addEventListener("pointerdown", (event) => this.grab(event));
    this.element.addEventListener("dblclick", () => app.store.update(live(app.store.get()), true));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  destroy(): void {
    this.resized.disconnect();
    this.api.abort();
  }

  update(view: View): void {
    if (view.pid !== this.pid) {
      this.pid = view.pid;
      this.answer = null;
      this.next = 0;
    }
    if (view.pid !== 0 && performance.now() >= this.next) void this.load(view.pid);
    this.draw();
  }

  private async load(pid: number): Promise<void> {
    this.next = performance.now() + REFRESH_MS;
    try {
      // Every mode knows allocated memory. Only the points are drawn, not the groups.
      this.answer = await this.api.history({ "selection.pid": pid, group_by: "module", measure: "allocated", limit: 1,
        points: 300 });
      this.app.noteHistory(pid, this.answer);
      this.draw();
    } catch (error) {
      if (!isAbort(error)) this.app.fail(error);
    }
  }

  // ------------------------------------------------------------ pointer and keys

  private momentAt(event: PointerEvent): number {
    const { left, width } = this.element.getBoundingClientRect(), { begin, now } = this.app.recorded();
    return begin + Math.max(0, Math.min(1, (event.clientX - left) / width)) * (now - begin);
  }

  private grab(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.element.setPointerCapture(event.pointerId);
    const move = (at: PointerEvent) => this.go(this.momentAt(at));
    const end = () => {
      this.element.removeEventListener("pointermove", move);
      this.element.removeEventListener("pointerup", end);
      this.element.removeEventListener("pointercancel", end);
    };
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("pointerup", end);
    this.element.addEventListener("pointercancel", end);
    move(event);
  }

  private go(moment: number): void {
    const { store } = this.app;
    store.update(at(store.get(), this.app.axis(), moment, this.app.recorded()));
  }

  private key(event: KeyboardEvent): void {
    const recorded = this.app.recorded(), view = this.app.store.get(), step = stepOf(this.app.axis());
    const now = view.end ?? recorded.now, far = event.shiftKey ? 10 : 1;
    const moves: Record<string, number> = { ArrowLeft: now - step * far, ArrowRight: now + step * far,
      ArrowDown: now - step * far, ArrowUp: now + step * far, PageUp: now + 10 * step, PageDown: now - 10 * step,
      Home: recorded.begin };
    const moment = moves[event.key];
    if (event.key === "End") this.app.store.update(live(view), true);
    else if (moment !== undefined && !event.altKey && !event.ctrlKey && !event.metaKey) this.go(moment);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // ------------------------------------------------------------ drawing

  private draw(): void {
    const width = this.element.clientWidth, ratio = window.devicePixelRatio;
    if (width === 0) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    const context = this.canvas.getContext("2d")!;
    context.scale(ratio, ratio);
    const { begin, now } = this.app.recorded();
    const x = (ms: number) => ((ms - begin) / Math.max(1, now - begin)) * width;
    this.drawHistory(context, x);
    this.drawRanges(context, x, width);
    this.describe();
  }

  private drawHistory(context: CanvasRenderingContext2D, x: (ms: number) => number): void {
    const points = this.answer?.points ?? [], palette = paletteOf(this.app.isDark());
    if (points.length < 2) return;
    const times = points.map((point) => x(Number(point.time_unix_ns) / 1e6));
    const most = Math.max(1, ...points.map((point) => Math.max(point.live_bytes, Number(point.heap_bytes))));
    const y = (value: number) => HEIGHT - FOOT - (value / most) * (HEIGHT - FOOT - 6);
    context.beginPath();
    context.moveTo(times[0]!, HEIGHT - FOOT);
    points.forEach((point, i) => context.lineTo(times[i]!, y(point.live_bytes)));
    context.lineTo(times.at(-1)!, HEIGHT - FOOT);
    context.fillStyle = `${palette.chosen}55`;
    context.fill();
    context.beginPath();
    points.forEach((point, i) => context.lineTo(times[i]!, y(Number(point.heap_bytes))));
    context.strokeStyle = palette.text;
    context.stroke();
  }

  private drawRanges(context: CanvasRenderingContext2D, x: (ms: number) => number, width: number): void {
    const palette = paletteOf(this.app.isDark()), view = this.app.store.get(), { now, peak } = this.app.recorded();
    const axis = this.app.axis();
    const band = (range: Range, colour: string) => {
      context.fillStyle = colour;
      context.fillRect(x(range.begin), HEIGHT - FOOT, Math.max(2, x(range.end) - x(range.begin)), FOOT);
    };
    // Dims the time outside the axis.
    context.fillStyle = `${palette.ground}a0`;
    context.fillRect(0, 0, Math.max(0, x(axis.begin)), HEIGHT - FOOT);
    context.fillRect(x(axis.end), 0, Math.max(0, width - x(axis.end)), HEIGHT - FOOT);
    if (view.compare) band(view.compare, palette.base);
    if (view.begin !== undefined) band({ begin: view.begin, end: view.end ?? now }, palette.chosen);
    const whole = (at: number, half: number) => Math.max(half, Math.min(width - half, at));
    if (peak > 0) this.drawPeak(context, whole(x(peak), PEAK), palette.compaction);
    const cursor = whole(x(view.live ? now : view.end ?? now), KNOB);
    context.fillStyle = view.live ? palette.text : palette.chosen;
    context.fillRect(cursor - 1, 0, 2, HEIGHT);
    context.beginPath();
    context.arc(cursor, KNOB, KNOB, 0, 2 * Math.PI);
    context.fill();
  }

  private drawPeak(context: CanvasRenderingContext2D, x: number, colour: string): void {
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x - PEAK, 0);
    context.lineTo(x + PEAK, 0);
    context.lineTo(x, 6);
    context.fill();
  }

  private describe(): void {
    const view = this.app.store.get(), { begin, now, peak } = this.app.recorded();
    const cursor = view.live ? now : view.end ?? now;
    this.element.setAttribute("aria-valuemin", String(Math.round(begin)));
    this.element.setAttribute("aria-valuemax", String(Math.round(now)));
    this.element.setAttribute("aria-valuenow", String(Math.round(cursor)));
    this.element.setAttribute("aria-valuetext", view.live ? "live" : clock(cursor));
    const top = this.answer && peak > 0 ? ` Red mark: peak of live memory, ${peakText(this.answer)} at ${clock(peak)}.` : "";
    this.element.title = `Drag: move the cursor through ${clock(begin)} – ${clock(now)}. Double-click: live.${top}`;
  }
}
