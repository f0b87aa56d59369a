// SPDX-License-Identifier: Apache-2.0
// A program's log lines up to the cursor.
import { clock } from "../lib/axis";
import { make } from "../lib/dom";
import type { Line } from "./feed";

const MOST = 500;
const OFF = "Log lines require control: start memprofd with --web.enable-control, or use memprofctl values";

export class LogPane {
  readonly element: HTMLElement;
  private readonly list = make("ol", { className: "log-lines", tabIndex: 0, "aria-label": "Log" });
  private readonly note = make("p", { className: "muted" });
  private shown = "";

  constructor() {
    this.element = make("section", { className: "value-log", "aria-label": "Log of the program" }, make("h3", {}, "Log"), this.note, this.list);
  }

  // until: milliseconds; Infinity shows all.
  show(lines: readonly Line[], until: number, mayRead: boolean): void {
    const seen = lines.filter(({ ms }) => ms <= until).slice(-MOST);
    this.note.textContent = mayRead ? seen.length === 0 ? "No lines in this time: a program keeps lines only while a viewer is present." : "" : OFF;
    const shown = JSON.stringify(seen);
    if (shown === this.shown) return;
    this.shown = shown;
    const isAtEnd = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 4;
    this.list.replaceChildren(...seen.map(({ ms, text, isPause }) => make("li", isPause ? { className: "pause" } : {},
      make("time", {}, clock(ms)), make("span", {}, isPause ? `pause ${text}` : text))));
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}
