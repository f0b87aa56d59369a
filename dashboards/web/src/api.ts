// memprofd's HTTP API: the messages of proto/memprof/v1/profiler.proto as JSON, with
// its field names. 64-bit integers come as strings: use Number().
import type { GroupBy, Measure, Range, View } from "./state";

export type Int64 = string | number;

export interface Estimate { bytes: number; bytes_stderr: number; samples: Int64 }
export interface Drop { stage: string; reason: string; count: Int64 }
export interface GcPauses { sum_seconds: number; count: Int64; p50_seconds: number; p99_seconds: number }
export interface GcStats {
  minor_words: number; promoted_words: number; major_words: number;
  minor_collections: Int64; major_collections: Int64; compactions: Int64;
  heap_bytes: Int64; top_heap_bytes: Int64; heap_chunks: Int64;
  minor_pauses?: GcPauses; major_slice_pauses?: GcPauses;
}
// Of a target with a budget: shares of the program's own CPU, 0.01 for 1 %.
export interface Overhead {
  budget_ratio: number; ratio: number; requested_sampling_rate: number;
  rate_lowered: Int64; rate_raised: Int64; exhausted: boolean;
}
export interface Target {
  pid: number; comm: string; exe: string; runtime_version: string; mode: string; capture: string;
  state: string; // "TARGET_STATE_SAMPLING"
  message: string; sampling_rate: number; dropped_events: Int64; drops: Drop[];
  allocated: Estimate; promoted: Estimate; live: Estimate; died_young: Estimate; died_old: Estimate;
  gc?: GcStats; paused_seconds: number; attach_seconds: number; attached_unix_ns: Int64;
  live_samples: Int64; alloc_events: Int64; promote_events: Int64; dealloc_events: Int64;
  stacks_interned: Int64; overhead?: Overhead;
}
export interface Location {
  function: string; file: string; line: number; start_column: number; end_column: number; module: string;
}
// The last bucket's bound is the string "Infinity".
export interface LifetimeBucket { upper_bound_seconds: number | string; count: Int64 }
export interface Lifetime {
  p50_seconds: number; p90_seconds: number; p99_seconds: number; samples: Int64; buckets: LifetimeBucket[];
}
export interface Site {
  function: string; file: string; line: number; samples: Int64;
  allocated?: Estimate; promoted?: Estimate; live?: Estimate; died_young?: Estimate; died_old?: Estimate;
  lifetime?: Lifetime; callstack: Location[]; module: string; library: string; thread: number; domain: number;
  allocated_objects: number; live_objects: number;
}
export interface ApiRange { begin_unix_ns: Int64; end_unix_ns: Int64 }
export interface SitesAnswer {
  target: Target; sites: Site[]; time_unix_ns: Int64; range: ApiRange; total: Site; groups: number;
}
export interface SiteDiff { base?: Site; other?: Site; change: number; change_stderr: number }
export interface DiffAnswer {
  diffs: SiteDiff[]; base_range: ApiRange; other_range: ApiRange; total: SiteDiff; groups: number;
}
export interface CallersAnswer { self: Site; total: Site; callers: Site[]; callees: Site[]; range: ApiRange }
export interface Leak {
  site: Site; growth_bytes: number; growth_bytes_stderr: number; growth_bytes_per_second: number;
  median_age_seconds: number; confidence: number; steadiness: number;
}
export interface LeaksAnswer { leaks: Leak[]; range: ApiRange }
export interface HistoryPoint {
  time_unix_ns: Int64; step_seconds: number; heap_bytes: Int64; live_bytes: number;
  minor_collections: Int64; major_collections: Int64; compactions: Int64; dropped_events: Int64;
}
export interface HistorySeries { group?: Site; values: number[]; stderrs: number[] }
export interface HistoryAnswer {
  points: HistoryPoint[]; series: HistorySeries[]; other?: HistorySeries; range: ApiRange;
  oldest_unix_ns: Int64; peak_unix_ns: Int64; peak_live_bytes: number;
}
export interface ServerInfo { version: string; control: boolean }

// Parameters by name; several values: the name several times.
export type Params = Record<string, string | number | boolean | readonly string[] | undefined>;

export const msOf = (unixNs: Int64): number => Number(unixNs) / 1e6;
// A double does not hold nanoseconds since the epoch, so in text.
export const nsOf = (unixMs: number): string => `${Math.round(unixMs)}000000`;
export const enumText = (value: string): string => value.replace(/^[A-Z]+_STATE_/, "").toLowerCase();

// Of a range as parameters; prefix: "", "base." or "other.".
export function rangeParams(range: Partial<Range>, prefix = ""): Params {
  return {
    [`${prefix}range.begin_unix_ns`]: range.begin === undefined ? undefined : nsOf(range.begin),
    [`${prefix}range.end_unix_ns`]: range.end === undefined ? undefined : nsOf(range.end),
  };
}
export function filterParams(view: Pick<View, "filter">, prefix = ""): Params {
  return Object.fromEntries(Object.entries(view.filter).map(([name, value]) => [`${prefix}filter.${name}`, value]));
}
// What the view says of the blocks to count: pid, range and filter. For questions
// with a selection prefix is "selection."; for sites and profiles "".
export function selectionParams(view: View, prefix = ""): Params {
  const range = { begin: view.begin, end: view.live ? undefined : view.end } as Partial<Range>;
  return { [`${prefix}pid`]: view.pid, ...rangeParams(range, prefix), ...filterParams(view, prefix) };
}

// Conditions on lifetimes, which questions over time cannot have.
export const AGE_FIELDS = ["min_lifetime_seconds", "max_lifetime_seconds", "fate", "allocated_in_range"];
const withoutAges = (params: Params): Params => Object.fromEntries(Object.entries(params)
  .filter(([name]) => !AGE_FIELDS.some((field) => name.endsWith(`filter.${field}`))));

export function query(params: Params): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) out.append(name, String(one));
  }
  return out.toString();
}

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function fetchOk(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.ok) throw new ApiError(response.status, (await response.text()).trim() || response.statusText);
  return response;
}

// A question that supersedes one that runs waits so long for a yet newer one: a drag
// asks where it pauses, and does not make memprofd answer what nobody looks at.
const SETTLE_MS = 100;

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const timer = window.setTimeout(done, milliseconds);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      fail(signal.reason);
    });
  });
}

// The questions of one asker. A new one ends the one before at the same endpoint: its
// promise is then rejected with an AbortError; see isAbort().
export class Api {
  private readonly running = new Map<string, AbortController>();

  sites(params: Params & { group_by?: GroupBy }): Promise<SitesAnswer> { return this.ask("sites", params); }
  diff(params: Params): Promise<DiffAnswer> { return this.ask("diff", params); }
  callers(params: Params): Promise<CallersAnswer> { return this.ask("callers", params); }
  leaks(params: Params): Promise<LeaksAnswer> { return this.ask("leaks", withoutAges(params)); }
  history(params: Params & { measure?: Measure }): Promise<HistoryAnswer> { return this.ask("history", withoutAges(params)); }
  targets(): Promise<{ targets: Target[] }> { return this.ask("targets", {}); }
  server(): Promise<ServerInfo> { return this.ask("server", {}); }
  // The flame graph's data, format=flame_json; for a profile to save see profileUrl().
  flame<T>(params: Params): Promise<T> { return this.ask("profile", { ...params, format: "flame_json" }); }

  // Control of the daemon; refused with 403 where it is not allowed.
  async control(action: "attach" | "detach" | "rate", body: object): Promise<{ target: Target }> {
    const response = await fetchOk(`/api/v1/${action}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Memprofd-Control": "1" },
      body: JSON.stringify(body),
    });
    return (await response.json()) as { target: Target };
  }

  // Ends what is still asked.
  abort(): void {
    for (const controller of this.running.values()) controller.abort();
    this.running.clear();
  }

  private async ask<T>(endpoint: string, params: Params): Promise<T> {
    const superseded = this.running.get(endpoint), controller = new AbortController();
    superseded?.abort();
    this.running.set(endpoint, controller);
    try {
      if (superseded) await pause(SETTLE_MS, controller.signal);
      const response = await fetchOk(`/api/v1/${endpoint}?${query(params)}`, { signal: controller.signal });
      return (await response.json()) as T;
    } finally {
      if (this.running.get(endpoint) === controller) this.running.delete(endpoint);
    }
  }
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";

export const profileUrl = (params: Params): string => `/api/v1/profile?${query(params)}`;
export const traceUrl = (pid: number, seconds: number): string => `/api/v1/trace?${query({ pid, seconds })}`;
