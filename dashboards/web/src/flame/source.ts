// SPDX-License-Identifier: Apache-2.0
// Profiles that panels draw and search, loaded once and shared.
import type { App } from "../app";
import { Api, filterParams, rangeParams } from "../lib/api";
import type { View } from "../lib/state";
import { recursionOf } from "./options";
import { Profile, type FlameJson } from "./profile";

export interface Loaded {
  key: string;  // of the question
  profile: Profile;
  before: Profile | null;  // of the range to compare with
  loadedMs: number;  // performance.now()
  tookMs: number;
}

// Key of everything that a profile depends on.
export function keyOf(view: View): string {
  return JSON.stringify([view.pid, view.begin, view.live ? "now" : view.end, view.compare, view.filter, recursionOf(view)]);
}

// Age after which a live profile is loaded again; slow answers may become older.
const MIN_AGE_MS = 4000;
export const staleAfterMs = (loaded: Loaded): number => Math.max(MIN_AGE_MS, 10 * loaded.tookMs);
export const isFresh = (loaded: Loaded | null, view: View): boolean =>
  loaded !== null && loaded.key === keyOf(view) &&
  (!view.live || performance.now() - loaded.loadedMs < staleAfterMs(loaded));

export class ProfileSource {
  private readonly after = new Api();
  private readonly before = new Api();
  private loaded: Loaded | null = null;
  private asking: { key: string; answer: Promise<Loaded> } | null = null;

  // The loaded profile, fresh or not; null: none yet.
  latest(): Loaded | null {
    return this.loaded;
  }

  // A superseded request is rejected with an AbortError.
  get(view: View): Promise<Loaded> {
    if (isFresh(this.loaded, view)) return Promise.resolve(this.loaded as Loaded);
    const key = keyOf(view);
    if (this.asking?.key === key) return this.asking.answer;
    const answer = this.load(view, key);
    this.asking = { key, answer };
    const done = () => {
      if (this.asking?.answer === answer) this.asking = null;
    };
    answer.then(done, done);
    return answer;
  }

  private async load(view: View, key: string): Promise<Loaded> {
    const began = performance.now();
    const end = view.live ? undefined : view.end;
    const [after, before] = await Promise.all([
      this.ask(this.after, view, { begin: view.begin, end }),
      view.compare ? this.ask(this.before, view, view.compare) : null,
    ]);
    const now = performance.now();
    this.loaded = { key, profile: after, before, loadedMs: now, tookMs: now - began };
    return this.loaded;
  }

  private async ask(api: Api, view: View, range: { begin?: number | undefined; end?: number | undefined }) {
    const data = await api.flame<FlameJson>({ pids: view.pid, recursion: recursionOf(view),
      ...rangeParams(range as { begin?: number; end?: number }), ...filterParams(view) });
    return new Profile(data);
  }
}

const sources = new WeakMap<App, ProfileSource>();
export function profileSource(app: App): ProfileSource {
  let source = sources.get(app);
  if (source === undefined) {
    source = new ProfileSource();
    sources.set(app, source);
  }
  return source;
}
