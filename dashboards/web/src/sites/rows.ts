// SPDX-License-Identifier: Apache-2.0
// Rows of the table: groups with their sizes, differences between two ranges, or growth.
import { Api, filterParams, rangeParams, selectionParams, type Int64, type Leak, type Params, type Site,
  type SiteDiff, type TimeRange } from "../lib/api";
import { flowFields, groupKeyOf, groupKeys, groupName, isCallstack, isMeasure, type GroupBy } from "../lib/names";
import { searchOf, type View } from "../lib/state";
import { isRegExp, serverPattern } from "../search/search";

export interface Row {
  id: string;  // stable across answers
  site: Site;
  diff?: SiteDiff;
  leak?: Leak;
}

export type Mode = "sites" | "difference" | "growth";

export interface Rows {
  mode: Mode;
  groupBy: GroupBy;
  rows: Row[];
  groups: number;  // total number; more than rows if the answer was truncated
  total: Site | null;
  begin: Int64;
  end: Int64;
  note?: string | undefined; // a caveat about the rows
}

const ANEW = "sampling restarted between the two; older blocks count as live: a change is the most it can be";

export const FIRST = 500;  // default number of rows to ask for

export const modeOf = (view: View): Mode =>
  view.compare ? "difference" : view.extra["sites.mode"] === "growth" ? "growth" : "sites";
export const groupOf = (view: View): GroupBy => {
  const group = view.extra["sites.by"] ?? "";
  return groupKeys().some(({ name }) => name === group) ? group : "site";
};
// Column to sort by; "" for the mode's default.
export const sortOf = (view: View): string => view.extra["sites.sort"] ?? "";

export function idOf(site: Site, by: GroupBy): string {
  return `${by}\n${groupKeyOf(site, by)}`;
}

// Name and location of a row.
export function nameOf(site: Site, by: GroupBy): { name: string; where: string } {
  const { name, where } = groupName(site, by);
  const callers = isCallstack(by) ? site.callstack.slice(1).map((at) => at.function) : [];
  return { name, where: callers.length > 0 ? `‹ ${callers.join(" ‹ ")}` : where };
}

// Key of the rows, without their order: the page itself sorts a complete answer.
export function keyOf(view: View): string {
  const { compare, extra } = view;
  return JSON.stringify([view.pid, view.begin, view.live ? "now" : view.end, compare, view.filter,
    compare ? view.measure : "", searchOf(view), extra["sites.by"], extra["sites.all"], modeOf(view)]);
}
export const orderOf = (view: View): string => `${sortOf(view)} ${view.measure}`;

export async function askRows(api: Api, view: View): Promise<Rows> {
  const mode = modeOf(view);
  if (mode === "difference") return askDifference(api, view);
  return mode === "growth" ? askGrowth(api, view) : askSites(api, view);
}

function commonParams(view: View): Params {
  return { group_by: groupOf(view), limit: view.extra["sites.all"] === "1" ? 0 : FIRST };
}

async function askSites(api: Api, view: View): Promise<Rows> {
  const groupBy = groupOf(view);
  const sort = sortOf(view);
  const answer = await api.sites({ ...selectionParams(view), ...commonParams(view), group_by: groupBy,
    order: isMeasure(sort) ? sort : view.measure,
    pattern: serverPattern(searchOf(view)) });
  return { mode: "sites", groupBy, groups: answer.groups, total: answer.total,
    begin: answer.range.begin_unix_ns, end: answer.range.end_unix_ns,
    rows: answer.sites.map((site) => ({ id: idOf(site, groupBy), site })) };
}

// Questions other than sites have no pattern. The search becomes the filter's pattern if it has none; otherwise the
// page applies it.
function searched(view: View): { view: View; keep: (site: Site) => boolean } {
  const search = searchOf(view);
  if (search === "" || !isRegExp(search)) return { view, keep: () => true };
  if (!view.filter["pattern"]) {
    return { view: { ...view, filter: { ...view.filter, pattern: serverPattern(search) } }, keep: () => true };
  }
  const regexp = new RegExp(search, search === search.toLowerCase() ? "iu" : "u");
  return { view, keep: (site) => regexp.test(site.function) || regexp.test(site.file) };
}

async function askDifference(api: Api, given: View): Promise<Rows> {
  const { view, keep } = searched(given);
  const groupBy = groupOf(view);
  const answer = await api.diff({ ...commonParams(view), order: view.measure, per_second: true,
    ...selectionParams(view, "other."),
    "base.pid": view.pid, ...rangeParams(view.compare ?? {}, "base."), ...filterParams(view, "base.") });
  const rows = answer.diffs.map((given) => {
    const diff = { ...given, base: perSecond(given.base, answer.base_range), other: perSecond(given.other, answer.other_range) };
    const site = (Number(diff.other?.samples) > 0 ? diff.other : diff.base) ?? diff.other;
    return { id: idOf(site as Site, groupBy), site: site as Site, diff: diff as SiteDiff };
  });
  return { mode: "difference", groupBy, rows: rows.filter(({ site }) => keep(site)), groups: answer.groups,
    total: null, begin: answer.other_range.begin_unix_ns, end: answer.other_range.end_unix_ns,
    note: answer.sessions_differ && view.measure === "live" ? ANEW : undefined };
}

// Divides flows by the length of the range; the server returns sums.
function perSecond(site: Site | undefined, range: TimeRange): Site | undefined {
  if (site === undefined) return undefined;
  const seconds = Math.max(1e-3, (Number(range.end_unix_ns) - Number(range.begin_unix_ns)) / 1e9);
  const scaled = { ...site };
  for (const key of flowFields()) {
    const estimate = site[key];
    if (estimate === undefined) continue;
    scaled[key] = { ...estimate, bytes: estimate.bytes / seconds, bytes_stderr: estimate.bytes_stderr / seconds,
      bytes_lower: estimate.bytes_lower / seconds, bytes_upper: estimate.bytes_upper / seconds };
  }
  return scaled;
}

async function askGrowth(api: Api, given: View): Promise<Rows> {
  const { view, keep } = searched(given);
  const groupBy = groupOf(view);
  // limit 0 returns all sites with significant growth.
  const answer = await api.leaks({ ...selectionParams(view, "selection."), group_by: groupBy, limit: 0 });
  const rows = answer.leaks.map((leak) => ({ id: idOf(leak.site, groupBy), site: leak.site, leak }))
    .filter(({ site }) => keep(site));
  return { mode: "growth", groupBy, rows, groups: rows.length, total: null,
    begin: answer.range.begin_unix_ns, end: answer.range.end_unix_ns,
    note: answer.compared_seconds > 0 ? undefined : "too few major collections have ended to measure growth" };
}
