// SPDX-License-Identifier: Apache-2.0
// Buttons at the right of the page's head: link, export, help.
import { fileName, type App, type Exporter, type Panel } from "./app";
import { filterParams, profileUrl, selectionParams, traceUrl, type Params } from "./lib/api";
import { button, make, save, saveBlob } from "./lib/dom";
import { formats } from "./lib/names";
import { toHash, type View } from "./lib/state";

const TRACE_SECONDS = [10, 60, 600];

// Parameters of a profile with the view's program, range and filter.
function profileParams(app: App, format: string): Params {
  const view = app.store.get(), { pid: _, ...range } = selectionParams(view);
  return { ...range, ...filterParams(view), pids: view.pid, measure: view.measure, format };
}

function profiles(app: App): Exporter[] {
  const available = () => app.store.get().pid !== 0;
  const one = (format: string, label: string): Exporter => ({ id: format, label, available,
    run: async () => ({ url: profileUrl(profileParams(app, format)) }) });
  return formats().map(({ name, label }) => one(name, label));
}

function traces(app: App): Exporter[] {
  return TRACE_SECONDS.map((seconds) => ({ id: `trace-${seconds}`,
    label: `Record ${seconds < 60 ? `${seconds} s` : `${seconds / 60} min`} as CTF trace (Memtrace)`,
    available: () => app.target()?.state === "TARGET_STATE_SAMPLING",
    run: () => record(app, seconds) }));
}

// memprofd answers when the recording is complete.
async function record(app: App, seconds: number): Promise<{ name: string; blob: Blob }> {
  const { pid, filter } = app.store.get(), nativeHeap = filter["heap"] === "c";
  app.notify(`Recording ${nativeHeap ? "the native heap of " : ""}pid ${pid} for ${seconds} s …`);
  const response = await fetch(traceUrl(pid, seconds, nativeHeap), { method: "POST", headers: { "X-Memprofd-Control": "1" } });
  if (!response.ok) throw new Error((await response.text()).trim());
  const blob = await response.blob();
  app.notify("");
  return { name: fileName(app, `${seconds}s`, "ctf"), blob };
}

async function runExporter(app: App, exporter: Exporter): Promise<void> {
  try {
    const file = await exporter.run();
    if ("url" in file) {
      save("", file.url);
      return;
    }
    saveBlob(file.name, file.blob);
  } catch (error) {
    app.fail(error);
  }
}

// A link to this view. It turns a live view into one of this moment, so that others see the same numbers.
export function pinned(app: App): string {
  const view = app.store.get(), { now } = app.recorded();
  const there: View = view.live ? { ...view, live: false, end: now, axis: app.axis() } : view;
  return `${location.origin}${location.pathname}${toHash(there)}`;
}

async function copyLink(app: App): Promise<void> {
  const link = pinned(app);
  try {
    await navigator.clipboard.writeText(link);
    app.notify("The link to this view is in the clipboard.");
  } catch {
    // Without HTTPS there is no clipboard; put the link into the address bar instead.
    history.pushState(null, "", link);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
    app.notify("The address of this page is now the link to this view: copy it from there.");
  }
}

export function mountActions(container: HTMLElement, app: App): Panel {
  // Exporters of this file come last; panels add theirs when they are mounted.
  const ours = [...profiles(app), ...traces(app)];
  const menu = make("div", { id: "export-menu", className: "drop-menu", role: "menu", hidden: true });
  const open = button("Export", () => toggle(menu.hidden), { className: "button", "aria-haspopup": "menu",
    "aria-expanded": "false", "aria-controls": "export-menu" });
  const help = document.getElementById("help") as HTMLDialogElement;

  function item(exporter: Exporter): HTMLElement {
    const out = button(exporter.label, () => {
      toggle(false);
      void runExporter(app, exporter);
    }, { role: "menuitem", "data-export": exporter.id });
    out.disabled = !exporter.available();
    return out;
  }
  function toggle(show: boolean): void {
    if (show) menu.replaceChildren(...[...app.exporters, ...ours].map(item));
    menu.hidden = !show;
    open.setAttribute("aria-expanded", String(show));
    if (show) menu.querySelector<HTMLElement>("button:not(:disabled)")?.focus();
    else if (menu.contains(document.activeElement)) open.focus();
  }
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.querySelectorAll<HTMLElement>("button:not(:disabled)")];
    const now = items.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") toggle(false);
    else if (step !== undefined) items[(now + step + items.length) % items.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!menu.hidden && !container.contains(event.target as Node)) toggle(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "?" && !(event.target as HTMLElement).closest("input, textarea")) help.showModal();
  });
  container.append(button("Copy link", () => void copyLink(app), { className: "button",
    title: "A link that shows others what you see, at this moment" }), open, menu,
  button("?", () => help.showModal(), { className: "button", "aria-label": "Help", title: "Keys and meaning (?)" }));
  return { update: () => {}, destroy: () => {} };
}
