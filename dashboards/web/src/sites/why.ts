// SPDX-License-Identifier: Apache-2.0
// Shows what keeps a site's memory alive: paths from GC roots to its sampled blocks, in a snapshot taken on request.
import type { App } from "../app";
import { Api, type HeapPath, type Why } from "../lib/api";
import { button, make } from "../lib/dom";
import * as format from "../lib/format";
import { typesText } from "../lib/heap_types";
import { CONTROL_OFF, refused } from "../lib/pause";

const OFF = `${CONTROL_OFF}, or use memprofctl why`;
const OBSERVED = "Only programs with an agent have snapshots; this one is observed from outside";

export class WhyTree {
  readonly element = make("div", { className: "why" });
  private readonly api = new Api();

  constructor(private readonly app: App) {}

  // Offers a button to take a snapshot, which pauses the program.
  offer(site: string): void {
    const { pid } = this.app.store.get(), target = this.app.target();
    const ask = button("Take a snapshot and look", () => void this.ask(pid, site), { className: "button" });
    const reason = !this.app.server.control ? OFF : target?.mode === "observe" ? OBSERVED : "";
    ask.disabled = reason !== "";
    ask.title = reason || "Pauses the program briefly";
    this.element.replaceChildren(ask, ...(reason === "" ? [] : [make("p", { className: "muted" }, reason)]));
  }

  // Takes the snapshot without another click, if allowed.
  show(site: string): void {
    this.offer(site);
    if (this.app.server.control && this.app.target()?.mode !== "observe") void this.ask(this.app.store.get().pid, site);
  }

  private async ask(pid: number, site: string, maxPause?: number): Promise<void> {
    const waits = make("p", { className: "muted" }, "Taking a snapshot …");
    this.element.replaceChildren(waits);
    try {
      const answer = await this.api.why(pid, site, maxPause);
      if (waits.isConnected) this.showAnswer(answer);
    } catch (error) {
      if (waits.isConnected) this.element.replaceChildren(refused(error, (seconds) => void this.ask(pid, site, seconds)));
    }
  }

  private showAnswer(answer: Why): void {
    const { snapshot, reachable, garbage, paths } = answer;
    const sum = `${format.estimate(reachable.bytes, reachable.bytes_stderr)} reachable, in ${format.count(reachable.sampled_blocks)} sampled blocks; ` +
      `${format.estimate(garbage.bytes, garbage.bytes_stderr)} are garbage not collected yet. ` +
      `The program was paused for ${format.duration(snapshot.pause_seconds)}.`;
    this.element.replaceChildren(make("p", {}, sum),
      make("p", { className: "muted types" }, typesText(answer.types)), list(paths, reachable.sampled_blocks));
  }
}

// Shares count blocks: all blocks of a site are about equally likely to be sampled.
function list(paths: readonly HeapPath[], all: number): HTMLElement {
  return make("ul", {}, ...paths.map((path) => path.more > 0 ? make("li", { className: "muted" }, `… ${format.count(path.more)} more`)
    : make("li", {}, make("span", { className: "part" }, format.share(path.sampled_blocks, all)), " ",
      make("span", { className: "muted" }, format.estimate(path.bytes, path.bytes_stderr)), " ", path.path,
      ...(path.children.length > 0 ? [list(path.children, all)] : []))));
}
