// SPDX-License-Identifier: Apache-2.0
// Panels about many sites, shared by the dashboards of all programs and of one.

import { ALL_PIDS, PROGRAM, UID, linkTo, ofSampled, rate, sumOfErrors } from './common';
import { Column, Query, UNIT, grid, series } from './panels';

export const LIVE = `memprofd_site_live_bytes{${PROGRAM}}`;
const BY_SITE = 'by (function, location)';

export const older = (seconds: number, selector = PROGRAM) =>
  `memprofd_site_live_older_bytes{${selector},older_than="${seconds}"}`;

// The largest sites at the end of the time range, and the sum of the rest.
function largest(expr: string, exprAtEnd: string): Query[] {
  const shown = `(sum ${BY_SITE} (${expr}) and topk($top, sum ${BY_SITE} (${exprAtEnd})))`;
  return [
    { expr: shown, legend: '{{function}} {{location}}' },
    { expr: `clamp_min(sum(${expr}) - sum(${shown}), 0)`, legend: 'other sites' },
  ];
}

// ofAll: the panel covers several programs and omits those that have ended.
export function liveBySite(ofAll: boolean) {
  const [live, atEnd] = ofAll ? [ofSampled(LIVE), ofSampled(LIVE, '@ end()')] : [LIVE, `${LIVE} @ end()`];
  return series('Live bytes by site', largest(live, atEnd), { unit: UNIT.bytes, stacked: true,
    width: 24, height: 11, legendRight: true, description: 'Bytes allocated since the attach and not collected ' +
    'yet, by allocation site. Estimates; the table below has their errors.' });
}

export function allocationBySite() {
  const metric = 'memprofd_site_allocated_bytes_total';
  const atEnd = `rate(${metric}{${PROGRAM}}[$__rate_interval] @ end())`;
  return series('Allocation rate by site', largest(rate(metric, PROGRAM), atEnd), {
    unit: UNIT.bytesPerSecond, stacked: true, width: 24, height: 11, legendRight: true,
    description: 'Bytes allocated per second by site, estimated from samples.' });
}

// Live bytes of a selector by age of the blocks.
export function liveByAge(title: string, selector: string, width: number) {
  const live = `sum(memprofd_site_live_bytes{${selector}})`;
  const at = (seconds: number) => `sum(${older(seconds, selector)})`;
  const between = (young: string, old: string) => `clamp_min(${young} - ${old}, 0)`;
  return series(title, [
    { expr: at(3600), legend: 'older than 1 h' },
    { expr: between(at(600), at(3600)), legend: '10 min to 1 h' },
    { expr: between(at(60), at(600)), legend: '1 to 10 min' },
    { expr: between(live, at(60)), legend: 'younger than 1 min' },
  ], { unit: UNIT.bytes, stacked: true, width, description: 'Live bytes by age. With a leak the oldest part ' +
       'grows without end; a cache fills up and then stays constant.' });
}

// The largest sites with all their numbers; a click opens the site's dashboard.
export function siteTable(ofAll: boolean) {
  const program = ofAll ? ['instance', 'program'] : [];
  const BY_ROW = `by (${[...program, 'function', 'location'].join(', ')})`;
  const live = `sum ${BY_ROW} (${ofAll ? ofSampled(LIVE) : LIVE})`;
  const chosen = `topk($top, ${live})`;
  const of = (expr: string) => `(${expr}) and ${chosen}`;
  const allocated = `memprofd_site_allocated_bytes_total{${PROGRAM}}`;
  const buckets = `sum ${BY_ROW.replace(')', ', le)')} (memprofd_site_lifetime_seconds_bucket{${ALL_PIDS}})`;
  const site = linkTo(UID.site, ofAll ? ['job'] : ['job', 'instance', 'program', 'pid'], [...program, 'function', 'location']);
  const before = `(sum ${BY_ROW} (${LIVE} offset $__range) or 0 * ${live})`;
  const columns: Column[] = [
    { title: 'Function', label: 'function', link: { title: 'This site', url: site } },
    { title: 'Location', label: 'location' },
    { title: 'Live', expr: chosen, unit: UNIT.bytes },
    { title: '± 2 s.e.', expr: of(`2 * ${sumOfErrors(`memprofd_site_live_bytes_stderr{${PROGRAM}}`, ` ${BY_ROW} `)}`),
      unit: UNIT.bytes },
    { title: 'Older than 10 min', expr: of(`sum ${BY_ROW} (${older(600)})`), unit: UNIT.bytes },
    { title: 'Growth in range', expr: of(`${live} - ${before}`), unit: UNIT.bytes },
    { title: 'Allocation rate', expr: of(`sum ${BY_ROW} (${rate('memprofd_site_allocated_bytes_total', PROGRAM)})`),
      unit: UNIT.bytesPerSecond },
    { title: 'Promoted', unit: UNIT.share, decimals: 0,
      expr: of(`sum ${BY_ROW} (memprofd_site_promoted_bytes_total{${PROGRAM}}) / (sum ${BY_ROW} (${allocated}) > 0)`) },
    { title: 'Lifetime p50', expr: of(`histogram_quantile(0.5, ${buckets})`), unit: UNIT.seconds },
    { title: 'p99', expr: of(`histogram_quantile(0.99, ${buckets})`), unit: UNIT.seconds },
  ];
  if (ofAll) columns.unshift({ title: 'memprofd', label: 'instance', width: 140 },
                             { title: 'Program', label: 'program', width: 140 });
  return grid('Sites with the most live bytes', columns, { sortBy: 'Live', height: 12,
    description: 'Click a function to open its dashboard. Lifetimes are those of dead blocks; the column is ' +
    'empty if no block has died.' });
}
