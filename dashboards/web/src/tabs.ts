// SPDX-License-Identifier: Apache-2.0
// Tabs below the charts; one is visible at a time.
import type { App, Panel } from "./app";
import { make } from "./lib/dom";
import { DEFAULT_VIEW, type View } from "./lib/state";

const TABS: [string, string][] = [["sites", "Sites"], ["flame", "Flame graph"], ["callers", "Callers and callees"],
  ["values", "Values"]];

// Mount the tabs before the panels, which check in update() whether they are visible.
export function mountTabs(container: HTMLElement, app: App): Panel {
  const tabs = TABS.map(([id, label]) => {
    const tab = make("button", { type: "button", id: `tab-${id}`, role: "tab", "aria-controls": id }, label);
    tab.addEventListener("click", () => app.store.update({ tab: id }, true));
    return { id, tab };
  });
  container.append(...tabs.map(({ tab }) => tab));
  container.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    const now = tabs.findIndex(({ tab }) => tab === document.activeElement);
    const next = tabs[(now + step + tabs.length) % tabs.length]!;
    next.tab.focus();
    app.store.update({ tab: next.id });
    event.preventDefault();
    event.stopPropagation();
  });
  function update(view: View): void {
    const shown = tabs.some(({ id }) => id === view.tab) ? view.tab : DEFAULT_VIEW.tab;
    for (const { id, tab } of tabs) {
      const isShown = id === shown;
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      document.getElementById(id)!.hidden = !isShown;
    }
  }
  update(app.store.get());
  return { update, destroy: () => {} };
}
