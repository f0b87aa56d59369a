// SPDX-License-Identifier: Apache-2.0
// One site, or several functions side by side.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ANNOTATIONS, PROGRAM, SITE, UID, VARIABLES, dashboard, errorOfRate, rate, sumOfErrors } from './common';
import { UNIT, dashed, distribution, grid, numbers, series, withError } from './panels';
import { liveByAge, older } from './sites';

const LIVE = `sum(memprofd_site_live_bytes{${SITE}})`;
const LIVE_ERROR = sumOfErrors(`memprofd_site_live_bytes_stderr{${SITE}}`);
const LIVE_BEFORE = `sum(memprofd_site_live_bytes{${SITE}} offset 5m)`;
const ERROR_BEFORE = sumOfErrors(`memprofd_site_live_bytes_stderr{${SITE}}`).replace(' ^ 2', ' offset 5m ^ 2');
const ALLOCATED = `sum(${rate('memprofd_site_allocated_bytes_total', SITE)})`;
const ALLOCATED_ERROR = errorOfRate(`memprofd_site_allocated_bytes_stderr{${SITE}}`);
const DEATHS = `sum by (le) (${rate('memprofd_site_lifetime_seconds_bucket', SITE)})`;
const ALL_DEATHS = `sum by (le) (memprofd_site_lifetime_seconds_bucket{${SITE}})`;

function summary() {
  return [
    numbers('Live', [{ expr: LIVE, legend: 'live' }, { expr: `2 * ${LIVE_ERROR}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytes, description: 'Allocated here since the attach and not collected yet; two standard errors.' }),
    numbers('Allocation rate', [{ expr: ALLOCATED, legend: 'allocated' },
                                { expr: `2 * ${ALLOCATED_ERROR}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytesPerSecond, description: 'Bytes allocated here a second; two standard errors.' }),
    numbers('Share of the program', [
      { expr: `${LIVE} / (sum(memprofd_live_bytes{${PROGRAM}}) > 0)`, legend: 'of its live bytes' },
      { expr: `${ALLOCATED} / (sum(${rate('memprofd_allocated_bytes_total', PROGRAM)}) > 0)`, legend: 'of its allocation' }],
            { unit: UNIT.share, decimals: 1, description: 'What of the program\'s memory is this site\'s.' }),
    numbers('Older than 10 min', [{ expr: `sum(${older(600, SITE)}) / (${LIVE} > 0) or vector(0)`, legend: 'of its live bytes' }],
            { unit: UNIT.share, decimals: 0, description: 'Share of the site\'s live bytes allocated more than ten minutes ago.' }),
    numbers('Promoted', [{ expr: `sum(memprofd_site_promoted_bytes_total{${SITE}}) / ` +
                                 `(sum(memprofd_site_allocated_bytes_total{${SITE}}) > 0)`, legend: 'promoted' }],
            { unit: UNIT.share, decimals: 1, description: 'What of the allocated bytes outlived a minor collection, since the attach.' }),
    numbers('Lifetime', [{ expr: `histogram_quantile(0.5, ${ALL_DEATHS})`, legend: 'p50' },
                         { expr: `histogram_quantile(0.99, ${ALL_DEATHS})`, legend: 'p99' }],
            { unit: UNIT.seconds, description: 'Of what has died since the attach. No value: nothing has died yet.' }),
  ];
}

function memory() {
  return [
    series('Live bytes', [...withError(LIVE, LIVE_ERROR, 'live'),
                          { expr: `sum(${older(600, SITE)})`, legend: 'of these older than 10 min' }],
           { unit: UNIT.bytes, height: 10, description: 'The band is two standard errors to each side.' })
      .overrideByName(...dashed('of these older than 10 min')),
    liveByAge('Live bytes by age', SITE, 12).height(10),
    series('Allocation rate', withError(ALLOCATED, ALLOCATED_ERROR, 'allocated'),
           { unit: UNIT.bytesPerSecond, description: 'The band is two standard errors to each side.' }),
    series('Is the growth chance?', [{
      expr: `(${LIVE} - ${LIVE_BEFORE}) / sqrt(${LIVE_ERROR} ^ 2 + ${ERROR_BEFORE} ^ 2 > 0) or 0 * ${LIVE}`,
      legend: 'growth in 5 min in standard errors' }],
           { unit: UNIT.sigmas, signed: true, description: 'Growth of the live bytes within five minutes in units of its standard ' +
             'error (an upper limit of it: blocks that live through are in both ends). Above 4 it is not chance, but it ' +
             'may be garbage that the next major collection takes. Zero until five minutes are known.' })
      .axisSoftMin(-6).axisSoftMax(6),
  ];
}

function lifetimes() {
  const quantile = (q: number, legend: string) => ({ expr: `histogram_quantile(${q}, ${DEATHS})`, legend });
  return [
    distribution('Lifetimes of what dies', DEATHS, { unit: UNIT.seconds, description: 'Words that died a second, by ' +
      'the time from allocation to the collection that found them dead.' }),
    series('Lifetime quantiles', [quantile(0.5, 'half lived at most'), quantile(0.9, '90 %'), quantile(0.99, '99 %')],
           { unit: UNIT.seconds, logarithmic: true, description: 'Of the bytes that die. Limits of buckets are a factor ' +
             'of 4 apart.' }),
  ];
}

function locations() {
  const by = 'by (pid, function, location)';
  return grid('Locations', [
    { title: 'pid', label: 'pid', width: 80 },
    { title: 'Function', label: 'function' },
    { title: 'Location', label: 'location' },
    { title: 'Live', unit: UNIT.bytes, expr: `sum ${by} (memprofd_site_live_bytes{${SITE}})` },
    { title: '± 2 s.e.', unit: UNIT.bytes,
      expr: `2 * ${sumOfErrors(`memprofd_site_live_bytes_stderr{${SITE}}`, ` ${by} `)}` },
    { title: 'Allocated', unit: UNIT.bytes, expr: `sum ${by} (memprofd_site_allocated_bytes_total{${SITE}})` },
    { title: '± 2 s.e. of it', unit: UNIT.bytes,
      expr: `2 * ${sumOfErrors(`memprofd_site_allocated_bytes_stderr{${SITE}}`, ` ${by} `)}` },
    { title: 'Allocation rate', unit: UNIT.bytesPerSecond,
      expr: `sum ${by} (${rate('memprofd_site_allocated_bytes_total', SITE)})` },
  ], { description: 'Each line of the function that allocates, since the attach.', sortBy: 'Live', height: 7 });
}

export function site() {
  const board = dashboard(UID.site, 'One site', 'One allocation site: what is live of it, how old that is, how long ' +
                          'its blocks live. Byte counts are estimates from samples, shown with their standard errors.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.pid(), VARIABLES.functions(),
                VARIABLES.location()])
    .annotations([ANNOTATIONS.alerts()]);
  summary().forEach((panel) => board.withPanel(panel));
  memory().forEach((panel) => board.withPanel(panel));
  board.withPanel(locations()).withRow(new RowBuilder('Lifetimes'));
  lifetimes().forEach((panel) => board.withPanel(panel));
  return board;
}
