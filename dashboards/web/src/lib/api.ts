// SPDX-License-Identifier: Apache-2.0
// memprofd's HTTP API. Its messages are generated from the proto.
import type * as pb from "../../gen/messages";
import type { Int64 } from "../../gen/messages";
import type { GroupBy, Measure } from "./names";
import type { Range, View } from "./state";

export type { DiscoveredProgram, Drop, Estimate, GcPauses, GcStats, HistoryPoint, HistorySeries, Int64, Lifetime, Location, MeasureInfo, Overhead, Site,
  GraphNode, HeapCensus, HeapClass, HeapCount, HeapDiffRow, HeapHolder, HeapPath, HeapSiteDiffRow, HeapTypes, KeptHeap, MemoryGrowth, MemoryParts, NamedValue, PastLine,
  DurationRange, Reported, RssOwner, RssPart, SiteDiff, Target, TimeRange, Value, ValueSeries, Vocabulary } from "../../gen/messages";

// Fields that memprofd always sets.
type With<T, K extends keyof T> = T & Required<Pick<T, K>>;
export type Leak = With<pb.Leak, "site">;
export type LeakGroup = Omit<pb.LeakGroup, "leak"> & { leak: Leak };
export type SitesAnswer = With<pb.ListSitesResponse, "target" | "range" | "total">;
export type DiffAnswer = With<pb.DiffSitesResponse, "base_range" | "other_range" | "total">;
export type CallersAnswer = With<pb.ListCallersResponse, "self" | "total" | "range">;
export type TargetsAnswer = pb.ListTargetsResponse;
export type LeaksAnswer = Omit<With<pb.ListLeaksResponse, "range">, "leaks" | "rolled_up"> & { leaks: Leak[]; rolled_up: LeakGroup[] };
export type HistoryAnswer = With<pb.GetHistoryResponse, "other" | "range">;
export type HeapAnswer = With<pb.DescribeHeapResponse, "census" | "retained" | "garbage">;
export type HeapDiffAnswer = With<pb.HeapDiff, "base" | "other">;
export type HeapWaste = pb.HeapWaste;
export type HeapGarbage = pb.HeapGarbage;
export type KeptHeaps = pb.ListHeapsResponse;
export type Censuses = pb.ListCensusesResponse;
export type ValueHistory = With<pb.GetValueHistoryResponse, "range">;
export type ValuesAnswer = pb.ListValuesResponse;
export type RssAnswer = pb.GetRssResponse;
export type Why = With<pb.HeapWhy, "snapshot" | "reachable" | "garbage">;
export type ServerInfo = Pick<pb.GetServerInfoResponse, "version" | "revision" | "control">;
export const versionOf = ({ version, revision }: ServerInfo): string => (revision ? `${version} (${revision})` : version);

// Parameters by name; an array repeats the name.
export type Params = Record<string, string | number | boolean | readonly string[] | undefined>;

export const msOf = (unixNs: Int64): number => Number(unixNs) / 1e6;
// As text, because a double cannot hold nanoseconds since the epoch.
export const nsOf = (unixMs: number): string => `${Math.round(unixMs)}000000`;
export const enumText = (value: string): string => value.replace(/^[A-Z]+_STATE_/, "").toLowerCase();

// A range as parameters; prefix: "", "base." or "other.".
export function rangeParams(range: Partial<Range>, prefix = ""): Params {
  return {
    [`${prefix}range.begin_unix_ns`]: range.begin === undefined ? undefined : nsOf(range.begin),
    [`${prefix}range.end_unix_ns`]: range.end === undefined ? undefined : nsOf(range.end),
  };
}
export function filterParams(view: Pick<View, "filter">, prefix = ""): Params {
  // Names sites by frames of the application unless the filter asks for all frames.
  return Object.fromEntries(Object.entries({ frames: "application", ...view.filter }).map(([name, value]) => [`${prefix}filter.${name}`, value]));
}
// The blocks to count: pid, range and filter of the view. prefix is "" for sites and profiles, "selection." for other
// questions.
export function selectionParams(view: View, prefix = ""): Params {
  const range = { begin: view.begin, end: view.live ? undefined : view.end } as Partial<Range>;
  return { [`${prefix}pid`]: view.pid, ...rangeParams(range, prefix), ...filterParams(view, prefix) };
}

// Conditions on lifetimes, which questions about history do not support.
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

// Refusal of a snapshot whose pause would be too long, in seconds. predicted 0: unknown; enough: the limit to allow
// next time.
export interface PauseRefusal { predicted: number; allowed: number; enough: number }

export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly refusal?: PauseRefusal) {
    super(message);
  }
}

function refusalIn({ headers }: Response): PauseRefusal | undefined {
  const seconds = (name: string): number => Number(headers.get(`Memprofd-${name}-Pause-Seconds`));
  const enough = seconds("Enough");
  return enough > 0 ? { predicted: seconds("Predicted"), allowed: seconds("Allowed"), enough } : undefined;
}

async function fetchOk(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.ok) throw new ApiError(response.status, (await response.text()).trim() || response.statusText, refusalIn(response));
  return response;
}

// Largest page size.
const PAGE_ROWS = 1000;
const GONE = 410;
type Paged = { next_page_token: string };

// Delay of a question that replaces a running one, so that a drag asks only where it pauses.
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

// Requests of one panel. A new request aborts the running one to the same endpoint: its promise is rejected with an
// AbortError; see isAbort().
export class Api {
  private readonly running = new Map<string, AbortController>();

  sites(params: Params & { group_by?: GroupBy }): Promise<SitesAnswer> {
    return this.askPages<SitesAnswer>("sites", params, (all, page) => all.sites.push(...page.sites));
  }
  diff(params: Params): Promise<DiffAnswer> {
    return this.askPages<DiffAnswer>("diff", params, (all, page) => all.diffs.push(...page.diffs));
  }
  callers(params: Params): Promise<CallersAnswer> { return this.ask("callers", params); }
  leaks(params: Params): Promise<LeaksAnswer> { return this.ask("leaks", withoutAges(params)); }
  history(params: Params & { measure?: Measure }): Promise<HistoryAnswer> { return this.ask("history", withoutAges(params)); }
  targets(params: { discovered?: boolean } = {}): Promise<TargetsAnswer> { return this.ask("targets", params); }
  vocabulary(): Promise<pb.Vocabulary> { return this.ask("vocabulary", {}); }
  server(): Promise<ServerInfo> { return this.ask("server", {}); }
  // Data of the flame graph, format=flame_json; profileUrl() saves a profile.
  flame<T>(params: Params): Promise<T> { return this.ask("profile", { ...params, format: "flame_json" }); }

  // Controls the daemon; fails with 403 if control is not allowed.
  async control(action: "attach" | "detach" | "rate", body: object): Promise<{ target: pb.Target }> {
    return (await (await this.post(action, body)).json()) as { target: pb.Target };
  }
  private post(action: string, body: object): Promise<Response> {
    return fetchOk(`/api/v1/${action}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Memprofd-Control": "1" },
      body: JSON.stringify(body),
    });
  }

  // File of a heap snapshot, for memprofctl. Here and below, maxPause is the longest allowed pause of the program in
  // seconds. By default memprofd's limit applies, and a refusal reports what would be enough.
  async snapshot(pid: number, maxPause?: number): Promise<Blob> {
    return (await this.post("snapshot", { pid, max_pause_seconds: maxPause })).blob();
  }

  // Contents of a heap and what keeps them alive; maxPause as above.
  async heap(pid: number, maxPause?: number): Promise<HeapAnswer> {
    return (await (await this.post("heap", { pid, max_pause_seconds: maxPause })).json()) as HeapAnswer;
  }

  // Stored snapshots of a program, their censuses, taking another, and answers from one or two.
  heaps(pid: number): Promise<KeptHeaps> { return this.ask("heaps", { pid }); }
  censuses(pid: number): Promise<Censuses> { return this.ask("censuses", { pid }); }
  async keepHeap(pid: number, maxPause?: number): Promise<With<pb.KeepHeapResponse, "heap">> {
    return (await (await this.post("keep_heap", { pid, max_pause_seconds: maxPause })).json()) as With<pb.KeepHeapResponse, "heap">;
  }
  async compareHeaps(base: string, other: string): Promise<HeapDiffAnswer> {
    return (await (await this.post("compare_heaps", { base, other })).json()) as HeapDiffAnswer;
  }
  async garbageOf(name: string): Promise<HeapGarbage> {
    return (await (await this.post("find_garbage", { name })).json()) as HeapGarbage;
  }
  async wasteOf(name: string): Promise<HeapWaste> {
    return (await (await this.post("find_waste", { name })).json()) as HeapWaste;
  }

  // Published values over time; with log lines; and now, like `memprofctl values`.
  valueHistory(params: Params): Promise<ValueHistory> { return this.ask("value_history", params); }
  async valueLines(pid: number, range: object): Promise<ValueHistory> {
    return (await (await this.post("value_lines", { pid, range, points: 1 })).json()) as ValueHistory;
  }
  async values(question: { pid: number; pattern?: string; only_reported?: boolean; with_contents?: boolean; graph_nodes?: number; limit?: number }):
      Promise<ValuesAnswer> {
    return (await (await this.post("values", question)).json()) as ValuesAnswer;
  }
  // Turns published values that match the pattern off or on, or changes their period.
  async adjust(question: { pid: number; pattern: string; enabled?: boolean; period_ms?: number }): Promise<pb.AdjustResponse> {
    return (await (await this.post("adjust", question)).json()) as pb.AdjustResponse;
  }

  // Chooses module values to record, or forgets them. Returns all that are recorded.
  async keepValues(question: { pid: number; pattern: string; forget?: boolean }): Promise<pb.KeepValuesResponse> {
    return (await (await this.post("keep_values", question)).json()) as pb.KeepValuesResponse;
  }

  // Resumes threads that wait at a pause point.
  async resume(pid: number): Promise<pb.ResumeResponse> {
    return (await (await this.post("resume", { pid })).json()) as pb.ResumeResponse;
  }

  // Resident memory by page; owners: also the custom blocks that hold native memory.
  async rss(pid: number, owners: boolean): Promise<RssAnswer> {
    return (await (await this.post("rss", { pid, owners })).json()) as RssAnswer;
  }

  // Takes a snapshot and shows what keeps the memory of a site alive.
  async why(pid: number, site: string, maxPause?: number): Promise<Why> {
    return (await (await this.post("why", { pid, site, max_pause_seconds: maxPause })).json()) as Why;
  }

  // Cancels pending questions.
  abort(): void {
    for (const controller of this.running.values()) controller.abort();
    this.running.clear();
  }

  // Loads all pages of an answer; starts over if memprofd has dropped it meanwhile.
  private async askPages<T extends Paged>(endpoint: string, params: Params, add: (all: T, page: T) => void): Promise<T> {
    for (let tries = 1; ; ++tries) {
      try {
        const all = await this.ask<T>(endpoint, { ...params, page_size: PAGE_ROWS });
        for (let token = all.next_page_token; token; ) {
          const page = await this.ask<T>(endpoint, { ...params, page_size: PAGE_ROWS, page_token: token });
          add(all, page);
          token = page.next_page_token;
        }
        return all;
      } catch (error) {
        if (!(error instanceof ApiError && error.status === GONE) || tries === 3) throw error;
      }
    }
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
// The native heap has a trace of its own.
export const traceUrl = (pid: number, seconds: number, nativeHeap: boolean): string =>
  `/api/v1/trace?${query({ pid, seconds, ...(nativeHeap && { heap: "c" }) })}`;
