// SPDX-License-Identifier: Apache-2.0
// Replays recorded time: moves the cursor forward to the present.
import type { App } from "../app";
import { at, live } from "./moves";

const FRAME_MS = 500; // panels update at each

export class Replay {
  speed = 10; // recorded seconds per second
  private timer = 0;
  private last = 0;

  constructor(private readonly app: App, private readonly changed: () => void) {}

  get isRunning(): boolean {
    return this.timer !== 0;
  }

  // Starts at the cursor, or at the start of the axis if the cursor is at the present.
  start(): void {
    if (this.isRunning) return;
    const { store } = this.app, view = store.get(), recorded = this.app.recorded(), axis = this.app.axis();
    const from = view.live || view.end === undefined || view.end >= recorded.now - 1000 ? axis.begin : view.end;
    this.last = performance.now();
    this.timer = window.setInterval(() => this.step(), FRAME_MS);
    store.update(at({ ...view, begin: undefined }, axis, from, recorded));
    this.changed();
  }

  stop(): void {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.changed();
  }

  private step(): void {
    const { store } = this.app, view = store.get(), recorded = this.app.recorded(), now = performance.now();
    if (view.live || view.end === undefined) {
      this.stop();
      return;
    }
    const end = view.end + (now - this.last) * this.speed;
    this.last = now;
    if (end >= recorded.now) {
      this.stop();
      store.update(live(view));
    } else {
      store.update(at(view, this.app.axis(), end, recorded));
    }
  }
}
