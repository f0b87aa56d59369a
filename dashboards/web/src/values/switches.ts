// SPDX-License-Identifier: Apache-2.0
// Switches of an observation: off, on, period of its function; for a module value: forget. They require control.
import type { App } from "../app";
import { Api } from "../lib/api";
import { button, make } from "../lib/dom";
import { escapeRegExp } from "../lib/text";
import type { Observation } from "./observations";

// Periods of functions in ms; 0: the program's own.
const PERIODS: readonly [number, string][] = [[0, "its own period"], [100, "each 0.1 s"], [1000, "each second"], [10_000, "each 10 s"], [60_000, "each minute"]];

export const onlyThat = (name: string): string => `^${escapeRegExp(name)}$`;

export interface Switches {
  element: HTMLElement;
  show(observation: Observation, canControl: boolean): void;
}

export class Control {
  private readonly api = new Api();

  constructor(private readonly app: App, private readonly changed: () => void) {}

  // Switches of one row.
  switches({ name }: Observation): Switches {
    let isOff = false;
    const toggle = button("Off", () => void this.adjust(onlyThat(name), { enabled: isOff }), { className: "button small switch" });
    const period = make("select", { className: "field small", "aria-label": `How often the function of ${name} is called` },
      ...PERIODS.map(([ms, text]) => make("option", { value: String(ms) }, text)));
    period.addEventListener("change", () => {
      void this.adjust(onlyThat(name), { period_ms: Number(period.value) });
      period.value = "";
    });
    const forget = button("Forget", () => void this.keep(name, true), { className: "button small forget", title: "Stops recording it" });
    const show = ({ now, isKept }: Observation, canControl: boolean): void => {
      forget.hidden = !canControl || isKept !== true;
      toggle.hidden = !canControl || now === undefined;
      period.hidden = toggle.hidden || now?.period_ms === 0;
      if (now === undefined) return;
      isOff = now.is_off;
      toggle.textContent = isOff ? "On" : "Off";
      toggle.title = isOff ? "Resume updating it" : "Stop updating it: points and timers continue to count, functions are not called";
      period.title = `It is called every ${now.period_ms} ms while a viewer is present`;
      if (document.activeElement !== period) period.value = "";
    };
    return { element: make("span", { className: "switches" }, toggle, period, forget), show };
  }

  // Switches all values whose name contains the text.
  async switchAll(text: string, enabled: boolean): Promise<void> {
    await this.adjust(escapeRegExp(text), { enabled });
  }

  async keep(name: string, forget = false): Promise<void> {
    await this.done(this.api.keepValues({ pid: this.pid(), pattern: onlyThat(name), forget }));
  }

  private pid(): number {
    return this.app.store.get().pid;
  }

  private async adjust(pattern: string, change: { enabled?: boolean; period_ms?: number }): Promise<void> {
    await this.done(this.api.adjust({ pid: this.pid(), pattern, ...change }));
  }

  private async done(asked: Promise<object>): Promise<void> {
    try {
      await asked;
      this.changed();
    } catch (error) {
      this.app.fail(error);
    }
  }
}
