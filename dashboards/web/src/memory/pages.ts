// SPDX-License-Identifier: Apache-2.0
// Resident memory page by page, read by memprofd on request.
import type { App } from "../app";
import { Api, type RssAnswer, type RssOwner, type RssPart } from "../lib/api";
import { button, make } from "../lib/dom";
import { bytes, count, share } from "../lib/format";
import { table } from "../lib/table";
import type { View } from "../lib/state";

const OFF = "This requires control: start memprofd with --web.enable-control, or use memprofctl rss";
const MOST_FILES = 12; // per kind

export class PagesCard {
  readonly element = make("div", { className: "pages", hidden: true });
  readonly button = button("What holds it now", () => this.ask(), { className: "button",
    title: "Reads the state of all resident pages, in some milliseconds for a small program, which is not paused" });
  private readonly api = new Api();
  private pid = 0; // process of the answer

  constructor(private readonly app: App) {}

  update(view: View): void {
    this.button.disabled = !this.app.runs();
    if (view.pid !== this.pid) this.element.hidden = true;
  }

  destroy(): void {
    this.api.abort();
  }

  ask(owners = false): void {
    if (!this.app.runs()) return;
    this.pid = this.app.store.get().pid;
    this.element.hidden = false;
    if (this.app.server.control) void this.load(this.pid, owners);
    else this.element.replaceChildren(make("p", { className: "muted" }, OFF));
  }

  private async load(pid: number, owners: boolean): Promise<void> {
    const waits = make("p", { className: "muted" }, "Reading its pages …");
    this.element.replaceChildren(waits);
    try {
      const answer = await this.api.rss(pid, owners);
      if (waits.isConnected) this.show(answer);
    } catch (error) {
      if (waits.isConnected) this.element.replaceChildren(make("p", { className: "error" }, (error as Error).message));
    }
  }

  private show(answer: RssAnswer): void {
    const close = button("Close", () => { this.element.hidden = true; }, { className: "button small" });
    const owners = button("Owners of native memory", () => this.ask(true), { className: "button small",
      title: "Finds the custom blocks that hold native memory; reads the whole heap, about 100 ms per GB" });
    const sum = `${bytes(Number(answer.counted_bytes))} in the pages that were read; the kernel counted ${bytes(Number(answer.rss_bytes))} right after.`;
    this.element.replaceChildren(
      make("div", { className: "pages-head" }, make("h3", {}, "Page by page"), make("span", { className: "muted" }, sum),
        make("span", { className: "space" }), owners, close),
      ...answer.notes.map((note) => make("p", { className: "muted" }, note)),
      make("div", { className: "pages-tables" }, ...tablesOf(answer).map(([title, body]) =>
        make("div", {}, make("h4", {}, title), body))));
  }
}

function tablesOf(answer: RssAnswer): [title: string, body: HTMLElement][] {
  const { arenas, advice, owners, no_owner } = answer, out: [string, HTMLElement][] = [["What is resident", partsTable(answer)]];
  if (advice.length > 0) {
    out.push(["What would give memory back", table("advice", ["At most", "What, and why"],
      advice.map(({ bytes: most, action, reason }) => [bytes(Number(most)), `${action}: ${reason}`]), 0)]);
  }
  if (owners.length > 0 || no_owner) {
    const row = (owner: RssOwner, name: string): string[] =>
      [bytes(Number(owner.bytes)), bytes(Number(owner.resident_bytes)), count(Number(owner.chunks)), name];
    out.push(["Native memory by the custom blocks that hold it", table("owners", ["Bytes", "Resident", "Chunks", "Identifier"],
      [...owners.map((owner) => row(owner, owner.identifier || "(not known)")), ...(no_owner ? [row(no_owner, "(held by no custom block)")] : [])], 0)]);
  }
  if (arenas.length > 1) {
    out.push(["Arenas of malloc", table("arenas", ["In use", "Free", "In caches", "Arena"], arenas.map((arena, i) =>
      [arena.used_bytes, arena.free_bytes, arena.cached_bytes].map((n) => bytes(Number(n))).concat(arena.main ? "the main one" : `arena ${i + 1}`)), 0)]);
  }
  return out;
}

// Parts by kind, the largest first, each with its files.
function partsTable({ parts, counted_bytes }: RssAnswer): HTMLElement {
  const kinds = new Map<string, RssPart[]>(), all = Number(counted_bytes);
  for (const part of parts) kinds.set(part.kind, [...(kinds.get(part.kind) ?? []), part]);
  const isSwapped = parts.some((part) => Number(part.swapped_bytes) > 0);
  const sum = (of: readonly RssPart[], field: "resident_bytes" | "size_bytes" | "swapped_bytes") => of.reduce((total, part) => total + Number(part[field]), 0);
  const row = (of: readonly RssPart[], name: string): string[] => [bytes(sum(of, "resident_bytes")), share(sum(of, "resident_bytes"), all),
    bytes(sum(of, "size_bytes")), ...(isSwapped ? [bytes(sum(of, "swapped_bytes"))] : []), name];
  const rows = [...kinds.values()].filter((of) => sum(of, "resident_bytes") + sum(of, "swapped_bytes") > 0)
    .sort((a, b) => sum(b, "resident_bytes") - sum(a, "resident_bytes"))
    .flatMap((of) => [row(of, of[0]!.title), ...filesOf(of).map(([files, name]) => row(files, `  ${name}`))]);
  return table("parts", ["Resident", "Share", "Of size", ...(isSwapped ? ["Swapped"] : []), "What"], rows, 0);
}

function filesOf(of: readonly RssPart[]): [files: readonly RssPart[], name: string][] {
  const named = of.filter(({ name }) => name !== ""), rest = named.slice(MOST_FILES);
  return [...named.slice(0, MOST_FILES).map((part): [RssPart[], string] => [[part], part.name]),
    ...(rest.length > 0 ? [[rest, `${count(rest.length)} more files`] as [RssPart[], string]] : [])];
}
