// SPDX-License-Identifier: Apache-2.0
// A choice of one among a few buttons side by side.
import { button, make } from "../lib/dom";

export interface Option<T extends string> {
  value: T;
  label: string;
  title?: string;
}

export interface Choice<T extends string> {
  element: HTMLElement;
  show(value: T, isEnabled?: (value: T) => boolean): void;
}

export function choice<T extends string>(label: string, options: readonly Option<T>[],
                                         onChoose: (value: T) => void): Choice<T> {
  const buttons = options.map(({ value, label: text, title }) =>
    button(text, () => onChoose(value), { title: title ?? "", "data-value": value }));
  const element = make("div", { className: "choice", role: "group", "aria-label": label }, ...buttons);
  return {
    element,
    show(value, isEnabled = () => true) {
      options.forEach((option, i) => {
        buttons[i].setAttribute("aria-pressed", String(option.value === value));
        buttons[i].disabled = !isEnabled(option.value);
      });
    },
  };
}
