// SPDX-License-Identifier: Apache-2.0
// One site, or several functions side by side.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ANNOTATIONS, PROGRAM, SITE, SITE_ALL_PIDS, UID, VARIABLES, dashboard, errorOfRate, rate, sumOfErrors } from './common';
import { UNIT, dashed, distribution, grid, numbers, series, withError } from './panels';
import { liveByAge, older } from './sites';

const LIVE = `sum(memprofd_site_live_bytes{${SITE}})`;
const LIVE_ERROR = sumOfErrors(`memprofd_site_live_bytes_stderr{${SITE}}`);
const LIVE_BEFORE = `sum(memprofd_site_live_bytes{${SITE}} offset 5m)`;
const ERROR_BEFORE = sumOfErrors(`memprofd_site_live_bytes_stderr{${SITE}}`).replace(' ^ 2', ' offset 5m ^ 2');
const ALLOCATED = `sum(${rate('memprofd_site_allocated_bytes_total', SITE)})`;
const ALLOCATED_ERROR = errorOfRate(`memprofd_site_allocated_bytes_stderr{${SITE}}`);
const DEATHS = `sum by (le) (${rate('memprofd_site_lifetime_seconds_bucket', SITE_ALL_PIDS)})`;
const ALL_DEATHS = `sum by (le) (memprofd_site_lifetime_seconds_bucket{${SITE_ALL_PIDS}})`;

function summary() {
  return [
    numbers('Live', [{ expr: LIVE, legend: 'live' }, { expr: `2 * ${LIVE_ERROR}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytes, description: 'Bytes allocated here since the attach and not collected yet, ' +
              'with two standard errors.' }),
    numbers('Allocation rate', [{ expr: ALLOCATED, legend: 'allocated' },
                                { expr: `2 * ${ALLOCATED_ERROR}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytesPerSecond, description: 'Bytes allocated here per second, with two standard ' +
              'errors.' }),
    numbers('Share of the program', [
      { expr: `${LIVE} / (sum(memprofd_live_bytes{${PROGRAM}}) > 0)`, legend: 'of its live bytes' },
      { expr: `${ALLOCATED} / (sum(${rate('memprofd_allocated_bytes_total', PROGRAM)}) > 0)`, legend: 'of its allocation' }],
            { unit: UNIT.share, decimals: 1, description: 'This site\'s share of the program\'s memory.' }),
    numbers('Older than 10 min', [{ expr: `sum(${older(600, SITE)}) / (${LIVE} > 0) or vector(0)`, legend: 'of its live bytes' }],
            { unit: UNIT.share, decimals: 0, description: 'Share of the site\'s live bytes that was allocated ' +
              'more than ten minutes ago.' }),
    numbers('Promoted', [{ expr: `sum(memprofd_site_promoted_bytes_total{${SITE}}) / ` +
                                 `(sum(memprofd_site_allocated_bytes_total{${SITE}}) > 0)`, legend: 'promoted' }],
            { unit: UNIT.share, decimals: 1, description: 'Share of the bytes allocated since the attach that ' +
              'survived a minor collection.' }),
    numbers('Lifetime', [{ expr: `histogram_quantile(0.5, ${ALL_DEATHS})`, legend: 'p50' },
                         { expr: `histogram_quantile(0.99, ${ALL_DEATHS})`, legend: 'p99' }],
            { unit: UNIT.seconds, description: 'Lifetimes of the bytes that have died since the attach. There ' +
              'is no value if nothing has died yet.' }),
  ];
}

function memory() {
  return [
    series('Live bytes', [...withError(LIVE, LIVE_ERROR, 'live'),
                          { expr: `sum(${older(600, SITE)})`, legend: 'older than 10 min' }],
           { unit: UNIT.bytes, height: 10, description: 'The band is two standard errors to either side.' })
      .overrideByName(...dashed('older than 10 min')),
    liveByAge('Live bytes by age', SITE, 12).height(10),
    series('Allocation rate', withError(ALLOCATED, ALLOCATED_ERROR, 'allocated'),
           { unit: UNIT.bytesPerSecond, description: 'The band is two standard errors to either side.' }),
    series('Significance of the growth', [{
      expr: `(${LIVE} - ${LIVE_BEFORE}) / sqrt(${LIVE_ERROR} ^ 2 + ${ERROR_BEFORE} ^ 2 > 0) or 0 * ${LIVE}`,
      legend: 'growth in 5 min in standard errors' }],
           { unit: UNIT.sigmas, signed: true, description: 'Growth of the live bytes over five minutes, in ' +
             'standard errors. Growth above 4 is not chance, but it may be garbage that the next major ' +
             'collection frees. The standard error used is an upper limit, because blocks that live throughout ' +
             'count on both ends. Zero during the first five minutes.' })
      .axisSoftMin(-6).axisSoftMax(6),
  ];
}

function lifetimes() {
  const quantile = (q: number, legend: string) => ({ expr: `histogram_quantile(${q}, ${DEATHS})`, legend });
  return [
    distribution('Lifetimes of dead memory', DEATHS, { unit: UNIT.seconds, description: 'Words that died per ' +
      'second, by the time from their allocation to the collection that found them dead.' }),
    series('Lifetime quantiles', [quantile(0.5, '50 %'), quantile(0.9, '90 %'), quantile(0.99, '99 %')],
           { unit: UNIT.seconds, logarithmic: true, description: 'Lifetimes of bytes that died. Bucket limits ' +
             'are a factor of 4 apart.' }),
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
    { title: '± 2 s.e. of allocated', unit: UNIT.bytes,
      expr: `2 * ${sumOfErrors(`memprofd_site_allocated_bytes_stderr{${SITE}}`, ` ${by} `)}` },
    { title: 'Allocation rate', unit: UNIT.bytesPerSecond,
      expr: `sum ${by} (${rate('memprofd_site_allocated_bytes_total', SITE)})` },
  ], { description: 'Each allocating line of the function, since the attach.', sortBy: 'Live', height: 7 });
}

export function site() {
  const board = dashboard(UID.site, 'One site', 'One allocation site: its live memory, how old it is, and ' +
                          'the lifetimes of its blocks. Byte counts are estimates from samples, shown with ' +
                          'their standard errors.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.program(), VARIABLES.pid(),
                VARIABLES.functions(), VARIABLES.location()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.ends(), ANNOTATIONS.rates()]);
  summary().forEach((panel) => board.withPanel(panel));
  memory().forEach((panel) => board.withPanel(panel));
  board.withPanel(locations()).withRow(new RowBuilder('Lifetimes'));
  lifetimes().forEach((panel) => board.withPanel(panel));
  return board;
}
