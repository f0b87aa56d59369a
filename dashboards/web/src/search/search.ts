// SPDX-License-Identifier: Apache-2.0
// The search field at the top: a regular expression, applied to the sites table, the flame graph and the callers tab.
// The address holds it as x.search.
import type { App, Panel } from "../app";
import { profileSource } from "../flame/source";
import { make } from "../lib/dom";
import { patternOfName } from "../lib/names";
import { searchOf } from "../lib/state";
import { escapeRegExp } from "../lib/text";
import { Completion, type Suggestion } from "./completion";
import { suggestionsFor, wordsOf, type Word } from "./vocabulary";
import "./search.css";

// Delay between a key press and the search.
const QUIET_MS = 120;

// The server's pattern for a search; in lower case it ignores case.
export function serverPattern(search: string): string {
  return search !== "" && search === search.toLowerCase() ? `(?i)${search}` : search;
}

export function isRegExp(text: string): boolean {
  try {
    new RegExp(text, "u");
    return true;
  } catch {
    return false;
  }
}

// Matches only the picked function or file, or everything in the picked module.
export const suggestedPattern = ({ text, kind }: Suggestion): string =>
  (kind === "file" ? undefined : patternOfName(text, kind)) ?? escapeRegExp(text);

// Suggestions from the view's profile, loaded on first use.
export class Suggestions {
  private words: Word[] = [];
  private of: object | null = null;
  constructor(private readonly app: App) {}

  async load(): Promise<void> {
    try {
      const view = this.app.store.get();
      const { profile } = await profileSource(this.app).get(view);
      if (this.of === profile) return;
      this.of = profile;
      this.words = wordsOf(profile, view.measure);
    } catch (error) {
      this.app.fail(error);
    }
  }
  suggest(typed: string, kinds?: readonly Word["kind"][]): Suggestion[] {
    return suggestionsFor(this.words, typed, kinds);
  }
}

export function mountSearch(container: HTMLElement, app: App): Panel {
  const input = make("input", { type: "search", className: "field", spellcheck: false,
    placeholder: "Search functions, files, modules (regular expression)",
    "aria-label": "Search functions, files and modules by regular expression", "aria-keyshortcuts": "/" });
  container.classList.add("search");
  container.append(input, make("kbd", { "aria-hidden": "true" }, "/"));
  const suggestions = new Suggestions(app);
  const search = (text: string, isStep: boolean) => {
    const isValid = isRegExp(text);
    input.setAttribute("aria-invalid", String(!isValid));
    if (isValid) app.store.setExtra("search", text, isStep);
  };
  let waiting = 0;
  const completion = new Completion(input, {
    suggest: (typed) => suggestions.suggest(typed),
    onPick: (picked) => {
      window.clearTimeout(waiting);
      input.value = suggestedPattern(picked);
      search(input.value, true);
    },
    onOpen: () => void suggestions.load().then(() => completion.refresh()),
  });
  input.addEventListener("input", () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => search(input.value, false), QUIET_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    window.clearTimeout(waiting);
    search(input.value, true);
  });
  const onKey = (event: KeyboardEvent) => {
    const isTyping = event.target instanceof Element && event.target.closest("input, select, textarea") !== null;
    if (event.key !== "/" || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    input.focus();
    input.select();
  };
  document.addEventListener("keydown", onKey);
  return {
    update(view) {
      const text = searchOf(view);
      if (document.activeElement !== input && input.value !== text) input.value = text;
    },
    destroy() {
      document.removeEventListener("keydown", onKey);
    },
  };
}
