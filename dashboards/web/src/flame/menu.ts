// SPDX-License-Identifier: Apache-2.0
// A menu beside a frame or a site. It closes on a choice, on Escape, or when it loses the focus.
import { button, make } from "../lib/dom";
import type { WindowPoint } from "./flame_graph";

export interface Choice {
  label: string;
  run: () => void;
}

export function openMenu(choices: readonly Choice[], place: WindowPoint, label: string): void {
  const before = document.activeElement as HTMLElement | null;
  const menu = make("div", { className: "menu", role: "menu", "aria-label": label });
  const close = () => {
    menu.remove();
    document.removeEventListener("mousedown", outside, true);
  };
  const outside = (event: Event) => {
    if (!menu.contains(event.target as Node)) close();
  };
  menu.append(...choices.map(({ label: text, run }) => button(text, () => {
    close();
    before?.focus();
    run();
  }, { role: "menuitem" })));
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.children] as HTMLElement[];
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      const at = items.indexOf(document.activeElement as HTMLElement);
      items[(at + step + items.length) % items.length].focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      close();
      before?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.body.append(menu);
  menu.style.left = `${Math.max(4, Math.min(place.x, window.innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.max(4, Math.min(place.y, window.innerHeight - menu.offsetHeight - 8))}px`;
  document.addEventListener("mousedown", outside, true);
  (menu.firstElementChild as HTMLElement | null)?.focus();
}
