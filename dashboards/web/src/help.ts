// SPDX-License-Identifier: Apache-2.0
// The help dialog: keys, mouse, and meaning of the numbers.
import { button, make } from "./lib/dom";

const KEYS: [string, string][] = [
  ["Space", "pause, resume live"], ["← →", "the cursor one step back or forward; with Shift ten"],
  ["Home End", "on the strip: the oldest moment; live"], ["r", "replay the recording"], ["l", "live"],
  ["+ − 0", "zoom in, out, reset"],
  ["↑ ↓ Enter Esc", "in the table and the flame graph: move, open or zoom, back; the menu key offers more"], ["/", "search"], ["?", "this help"]];
const MOUSE: [string, string][] = [
  ["Click on an area", "split it: module, function, site, callstacks"],
  ["Drag on a chart", "count only this range of time"], ["Drag on the strip", "move the cursor through the recording"],
  ["Ctrl + wheel", "zoom around the pointer"], ["Shift + wheel", "move the axis"], ["Double-click on a chart", "reset the zoom"]];

function list(rows: [string, string][], isKeys: boolean): HTMLElement {
  return make("dl", {}, ...rows.flatMap(([name, meaning]) => [
    make("dt", {}, ...(isKeys ? name.split(" ").map((key) => make("kbd", {}, key)) : [name])), make("dd", {}, meaning)]));
}

export function fillHelp(dialog: HTMLDialogElement): void {
  dialog.append(make("h2", { id: "help-title" }, "Help"), list(KEYS, true), list(MOUSE, false),
    make("p", {}, "Bytes are estimates from samples, block headers included; ± is one standard error. Hover over a number for its 95 % interval, which contains the true number in 95 of 100 cases. " +
      "Live memory was allocated since the attach and has not been collected at the cursor. " +
      "Heap size, collections and compactions are exact numbers of the runtime."),
    make("p", {}, "While the page is paused, memprofd continues to record: nothing is lost. It keeps 10 minutes in steps of 1 s, 2 hours in steps of 10 s, and a day in steps of 1 min."),
    button("Close", () => dialog.close(), { className: "button" }));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
