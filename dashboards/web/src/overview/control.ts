// SPDX-License-Identifier: Apache-2.0
// Attach, detach and sampling rate, if the server allows control.
import type { App } from "../app";
import { Api, type Target } from "../lib/api";
import { button, make, saveBlob } from "../lib/dom";
import { bytes } from "../lib/format";
import { CONTROL_OFF, refusalOf } from "../lib/pause";

export class Control {
  private readonly api = new Api();

  constructor(private readonly app: App) {}

  get isAllowed(): boolean {
    return this.app.server.control;
  }

  // Why control is disabled; "" if it is enabled.
  reason(): string {
    return this.isAllowed ? "" : `${CONTROL_OFF}, or use memprofctl`;
  }

  async run(what: string, action: "attach" | "detach" | "rate", body: object): Promise<boolean> {
    this.app.notify(`${what} …`);
    try {
      await this.api.control(action, body);
      this.app.notify(`${what}: done.`);
      await this.app.refresh();
      return true;
    } catch (error) {
      this.app.notify(`${what}: ${error instanceof Error ? error.message : String(error)}`, "error");
      return false;
    }
  }

  // Parses a rate such as "1e-4"; null if the text is no rate.
  static rateOf(text: string): number | null {
    const rate = Number(text.trim());
    return text.trim() !== "" && rate > 0 && rate <= 1 ? rate : null;
  }

  // An editable field for the sampling rate.
  rateField(target: Target): HTMLInputElement {
    const field = make("input", { className: "field rate", type: "text", size: 7, value: target.sampling_rate.toExponential(),
      "aria-label": `Sampling rate of pid ${target.pid}, samples per word`, "data-pid": String(target.pid) });
    field.disabled = !this.isAllowed;
    field.title = this.reason() || "Samples per word, 0 to 1; Enter sets it. On OCaml 4 live then restarts at zero.";
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.setRate(target, field);
      if (event.key === "Escape") field.blur();
    });
    return field;
  }

  private async setRate(target: Target, field: HTMLInputElement): Promise<void> {
    const rate = Control.rateOf(field.value);
    field.setAttribute("aria-invalid", String(rate === null));
    if (rate === null) {
      this.app.notify(`"${field.value}" is not a sampling rate: write a number above 0 and at most 1, such as 1e-4`, "error");
      return;
    }
    field.blur();
    await this.run(`Sampling rate of pid ${target.pid} to ${rate.toExponential()}`, "rate",
      { pid: target.pid, process_start_ticks: target.process_start_ticks, sampling_rate: rate });
  }

  detachButton(target: Target): HTMLButtonElement {
    const out = button("Detach", () => void this.run(`Detach from ${target.comm} (pid ${target.pid})`, "detach",
      { pid: target.pid, process_start_ticks: target.process_start_ticks }),
      { className: "button small", "aria-label": `Detach from pid ${target.pid}` });
    out.disabled = !this.isAllowed;
    out.title = this.reason() || "Stops sampling; the counts stay readable";
    return out;
  }

  snapshotButton(target: Target): HTMLButtonElement {
    const out = button("Snapshot", () => void this.snapshot(target, out),
      { className: "button small", "aria-label": `Save a heap snapshot of pid ${target.pid}` });
    out.disabled = !this.isAllowed;
    out.title = this.reason() || "Pauses the program briefly and saves its heap as a file for memprofctl snapshot";
    return out;
  }

  private async snapshot(target: Target, pressed: HTMLButtonElement, maxPause?: number): Promise<void> {
    const what = `Snapshot of ${target.comm} (pid ${target.pid})`;
    this.app.notify(`${what} …`);
    pressed.disabled = true;
    try {
      const file = await this.api.snapshot(target.pid, maxPause), name = `${target.comm}-${target.pid}.heap`;
      saveBlob(name, file);
      this.app.notify(`${what}: saved, ${bytes(file.size)}. What keeps a site's memory: memprofctl snapshot why ${name} SITE`);
    } catch (error) {
      const { text, button: allow } = refusalOf(error, (seconds) => void this.snapshot(target, pressed, seconds));
      this.app.notify(`${what}: ${text}`, "error", allow);
    } finally {
      pressed.disabled = false;
    }
  }

  heapButton(target: Target, onHeap: () => Promise<void>): HTMLButtonElement {
    const out = button("Heap", () => {
      out.disabled = true;
      void onHeap().finally(() => { out.disabled = false; });
    }, { className: "button small", "aria-label": `What is in the heap of pid ${target.pid}` });
    out.disabled = !this.isAllowed;
    out.title = this.reason() || "Pauses the program briefly and shows what is in its heap and what holds it";
    return out;
  }

  // A form to attach to another program.
  attachForm(): HTMLElement {
    const pid = make("input", { className: "field", type: "text", inputMode: "numeric", size: 8, placeholder: "pid", name: "pid",
      "aria-label": "Process to attach to" });
    const rate = make("input", { className: "field", type: "text", size: 7, placeholder: "rate", name: "rate",
      "aria-label": "Sampling rate; empty: the default", title: "Samples per word; empty: memprofd's default" });
    const submit = make("button", { className: "button", type: "submit" }, "Attach");
    const form = make("form", { className: "attach" }, pid, rate, submit);
    for (const field of [pid, rate, submit]) {
      field.disabled = !this.isAllowed;
      if (!this.isAllowed) field.title = this.reason();
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.attach(pid, rate);
    });
    return form;
  }

  private async attach(pid: HTMLInputElement, rate: HTMLInputElement): Promise<void> {
    const number = Number(pid.value), sampling = rate.value.trim() === "" ? 0 : Control.rateOf(rate.value);
    pid.setAttribute("aria-invalid", String(!(Number.isInteger(number) && number > 0)));
    rate.setAttribute("aria-invalid", String(sampling === null));
    if (!(Number.isInteger(number) && number > 0) || sampling === null) return;
    if (await this.run(`Attach to pid ${number}`, "attach", { pid: number, sampling_rate: sampling })) {
      pid.value = "";
      this.app.store.update({ pid: number, drill: [], filter: {}, begin: undefined, compare: undefined, live: true, end: undefined, axis: undefined }, true);
    }
  }
}
