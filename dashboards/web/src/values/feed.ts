// SPDX-License-Identifier: Apache-2.0
// Loads the published values of the view's program for the visible time.
import { TICK_MS, type App } from "../app";
import { Api, isAbort, msOf, rangeParams, type PastLine, type ValueHistory, type ValuesAnswer } from "../lib/api";
import { clock, showing } from "../lib/axis";
import type { View } from "../lib/state";

export interface Line { ms: number; text: string; isPause: boolean }

const POINTS = 300;
const SELDOM_MS = 8000; // period while the numbers are hidden
const lineOf = ({ time_unix_ns, text, is_cut, is_pause }: PastLine): Line =>
  ({ ms: msOf(time_unix_ns), text: is_cut ? `${text} …` : text, isPause: is_pause });

export class Feed {
  pid = 0; // process of the other fields
  history: ValueHistory | null = null;
  times: number[] = []; // seconds since the epoch
  lines: Line[] = []; // of the log; without control only pauses
  now: ValuesAnswer | null = null; // null: unknown, or control is not allowed
  error = "";
  private readonly api = new Api();
  private asked = "";
  private next = 0;
  private turn = 0; // number of the latest question; answers to older ones are dropped
  private lastPause = -1; // ms of the latest known pause; -1: none yet

  constructor(private readonly app: App, private readonly changed: () => void) {}

  destroy(): void {
    this.api.abort();
  }

  // isShown: the tab is visible, so that more than phases is needed.
  update(view: View, isShown: boolean): void {
    if (view.pid === 0) return;
    const axis = this.app.axis();
    const question = JSON.stringify([view.pid, view.axis, view.span, isShown, view.live ? 0 : [axis.begin, axis.end]]);
    if (question === this.asked && !(view.live && performance.now() >= this.next)) return;
    if (view.pid !== this.pid) this.forget(view.pid);
    this.asked = question;
    this.next = performance.now() + 60_000; // prevents a second request while this one runs
    void this.ask(view, isShown);
  }

  // Index of the point at the cursor, else of the last; -1: no points.
  indexOf(view: View): number {
    if (view.live || view.end === undefined) return this.times.length - 1;
    const after = this.times.findIndex((time) => time * 1000 > view.end! + 500);
    return after < 0 ? this.times.length - 1 : after - 1;
  }

  // Call this after a change to load the values soon.
  askSoon(): void {
    this.next = 0;
  }

  // Resumes threads that wait at a pause point.
  async resume(): Promise<void> {
    try {
      await this.api.resume(this.pid);
      this.next = 0;
    } catch (error) {
      this.app.fail(error);
    }
  }

  private forget(pid: number): void {
    this.pid = pid;
    this.history = this.now = null;
    this.times = [];
    this.lines = [];
    this.lastPause = -1;
  }

  private async ask(view: View, isShown: boolean): Promise<void> {
    const started = performance.now(), { begin, end } = this.app.axis(), { pid } = view, turn = ++this.turn;
    const followsNow = view.live && !view.axis;
    const params = { pid, points: POINTS, pattern: isShown ? "" : "^$",
      ...(followsNow ? { "range.last_seconds": view.span || undefined } : rangeParams({ begin, end })) };
    try {
      const history = await this.api.valueHistory(params);
      const more = await this.askMore(view, isShown, history);
      if (turn !== this.turn) return;
      this.history = history;
      [this.lines, this.now] = more;
      this.times = history.times_unix_ns.map((ns) => msOf(ns) / 1000);
      this.error = "";
      this.app.notePhases(pid, history.phases.map(({ name, begin_unix_ns, end_unix_ns }) => ({ name, begin: msOf(begin_unix_ns),
        end: Number(end_unix_ns) === 0 ? undefined : msOf(end_unix_ns) })));
      this.stopAtPause(history);
    } catch (error) {
      if (isAbort(error) || turn !== this.turn) return;
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.next = started + Math.max(isShown ? TICK_MS * 0.9 : SELDOM_MS, 4 * (performance.now() - started));
    this.changed();
  }

  // Log lines and values that are not numbers; they require control.
  private async askMore(view: View, isShown: boolean, history: ValueHistory): Promise<[Line[], ValuesAnswer | null]> {
    if (!isShown || !this.app.server.control) return [history.pauses.map(lineOf), null];
    const { begin_unix_ns, end_unix_ns } = history.range;
    const [past, now] = await Promise.all([this.api.valueLines(view.pid, { begin_unix_ns, end_unix_ns }),
      view.live && this.app.runs() ? this.api.values({ pid: view.pid, only_reported: true }) : null]);
    return [past.lines.map(lineOf), now];
  }

  // A live page stops at a new pause point.
  private stopAtPause({ pauses }: ValueHistory): void {
    const last = pauses.at(-1), ms = last ? msOf(last.time_unix_ns) : 0, isFirst = this.lastPause < 0;
    if (ms <= this.lastPause) return;
    this.lastPause = ms;
    const { store } = this.app;
    if (isFirst || !last || !store.get().live) return;
    store.update({ live: false, end: ms, axis: showing(this.app.axis(), ms) }, true);
    this.app.notify(`The program has reached a pause point: ${last.text} (${clock(ms)})`);
  }
}
