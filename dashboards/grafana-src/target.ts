// SPDX-License-Identifier: Apache-2.0
// One program: all of its processes, or some.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ALL_PIDS, ANNOTATIONS, PROGRAM, UID, VARIABLES, dashboard, errorOfRate, linkTo, rate,
         sumOfErrors } from './common';
import { UNIT, bars, dashed, distribution, grid, numbers, series, withError } from './panels';
import { allocationBySite, liveByAge, liveBySite, older, siteTable } from './sites';

const LIVE = `sum(memprofd_live_bytes{${PROGRAM}})`;
const LIVE_ERROR = sumOfErrors(`memprofd_live_bytes_stderr{${PROGRAM}}`);
const BY_SITE = `sum by (function, location) (memprofd_site_live_bytes{${PROGRAM}})`;
const ALLOCATED = `sum(${rate('memprofd_allocated_bytes_total', PROGRAM)})`;
const ALLOCATED_ERROR = errorOfRate(`memprofd_allocated_bytes_stderr{${PROGRAM}}`);
const DEATHS = rate('memprofd_site_lifetime_seconds_bucket', ALL_PIDS);

function summary() {
  return [
    numbers('Live', [{ expr: LIVE, legend: 'live' }, { expr: `2 * ${LIVE_ERROR}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytes, description: 'Bytes allocated since the attach and not collected yet, with two ' +
              'standard errors.' }),
    numbers('Allocation rate', [{ expr: ALLOCATED, legend: 'allocated' },
                                { expr: `2 * ${ALLOCATED_ERROR}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytesPerSecond, description: 'Bytes allocated per second in both heaps, with two ' +
              'standard errors.' }),
    numbers('Older than 10 min', [{ expr: `sum(${older(600)}) / (${LIVE} > 0)`, legend: 'of the live bytes' }],
            { unit: UNIT.share, decimals: 0, description: 'Share of the live bytes that was allocated more than ten ' +
              'minutes ago. Zero in the first ten minutes after the attach.' }),
    numbers('Survive a minor collection',
            [{ expr: `sum(${rate('memprofd_promoted_bytes_total', PROGRAM)}) / (${ALLOCATED} > 0)`, legend: 'promoted' }],
            { unit: UNIT.share, decimals: 1, description: 'Promoted bytes as a share of the allocated bytes.' }),
    numbers('One sample stands for', [{ expr: `8 / (avg(memprofd_sampling_rate{${PROGRAM}}) > 0)`, legend: 'bytes' }],
            { unit: UNIT.bytes, description: 'The sampling interval. Halving the error takes four times the ' +
              'samples.' }),
    numbers('Stopped by memprofd', [{ expr: `sum(memprofd_target_paused_seconds_total{${PROGRAM}})`, legend: 'total' }],
            { unit: UNIT.seconds, description: 'Total time for which memprofd has stopped the processes since ' +
              'the attach.' }),
  ];
}

function memory() {
  const heap = `sum(memprofd_ocaml_heap_bytes{${PROGRAM}})`;
  return [
    series('Live bytes and heap', [...withError(LIVE, LIVE_ERROR, 'live'),
                                   { expr: heap, legend: 'major heap' }],
           { unit: UNIT.bytes, height: 10, description: 'The band is two standard errors to either side. The ' +
             'heap is the runtime\'s own number. It includes free words and blocks from before the attach.' })
      .overrideByName(...dashed('major heap')),
    liveByAge('Live bytes by age', PROGRAM, 12).height(10),
    series('Resident memory', [
      { expr: `sum by (kind) (memprofd_target_resident_bytes{${PROGRAM}})`, legend: '{{kind}}' },
      { expr: `sum(memprofd_target_swapped_bytes{${PROGRAM}})`, legend: 'swapped out' }],
           { unit: UNIT.bytes, stacked: true, description: 'All memory of the processes, including C, as the ' +
             'kernel counts it. memprofctl rss --pid PID breaks it down.' }),
    series('Outside of the OCaml heap', [
      { expr: `clamp_min(sum(memprofd_target_resident_bytes{${PROGRAM}, kind="anonymous"}) - ${heap}, 0)`, legend: 'anonymous memory beyond the heap' },
      { expr: `sum(memprofd_live_external_bytes{${PROGRAM}})`, legend: 'held by custom blocks (estimate)' }],
           { unit: UNIT.bytes, description: 'Native heap (malloc), stacks, minor heaps and static data. It ' +
             'includes memory that Bigarrays and other custom blocks hold, if the program has touched it.' }),
    series('Allocation rate', withError(ALLOCATED, ALLOCATED_ERROR, 'allocated'),
           { unit: UNIT.bytesPerSecond, description: 'The band is two standard errors to either side. It ' +
             'shrinks with a higher sampling rate and with longer intervals.' }),
    series('Allocated by heap and source',
           [{ expr: `sum by (heap, source) (${rate('memprofd_allocated_bytes_total', PROGRAM)}) > 0`,
              legend: '{{heap}}, {{source}}' }],
           { unit: UNIT.bytesPerSecond, stacked: true, description: 'Blocks of more than 256 words are ' +
             'allocated in the major heap directly. normal: by OCaml and C code; marshal: unmarshalled; ' +
             'custom: memory outside of the heap.' }),
  ];
}

// A click selects that process on this dashboard.
function processes() {
  const by = 'by (instance, pid, mode, runtime_version)';
  const all = (expr: string) => `sum ${by} ((${expr}) ` +
    `* on (job, instance, pid) group_left (mode, runtime_version) memprofd_target_info{${PROGRAM}})`;
  const process = linkTo(UID.target, ['job', 'program'], ['instance', 'pid']);
  return grid('Processes', [
    { title: 'pid', label: 'pid', link: { title: 'This process', url: process } },
    { title: 'memprofd', label: 'instance' },
    { title: 'OCaml', label: 'runtime_version' },
    { title: 'Mode', label: 'mode' },
    { title: 'State', expr: all(`memprofd_target_up{${PROGRAM}}`),
      colours: { 1: { text: 'sampled', color: 'green' }, 0: { text: 'ended', color: 'orange' } } },
    { title: 'One sample stands for', unit: UNIT.bytes, expr: all(`8 / (memprofd_sampling_rate{${PROGRAM}} > 0)`) },
    { title: 'Live', unit: UNIT.bytes, expr: all(`memprofd_live_bytes{${PROGRAM}}`) },
    { title: '± 2 s.e.', unit: UNIT.bytes, expr: all(`2 * memprofd_live_bytes_stderr{${PROGRAM}}`) },
    { title: 'Major heap', unit: UNIT.bytes, expr: all(`memprofd_ocaml_heap_bytes{${PROGRAM}}`) },
    { title: 'Allocation rate', unit: UNIT.bytesPerSecond,
      expr: all(`sum by (job, instance, pid) (${rate('memprofd_allocated_bytes_total', PROGRAM)})`) },
  ], { description: 'Click a pid to see that process alone.', sortBy: 'Live', height: 7 });
}

function census() {
  return series('Heap by type in the last snapshot', [
    { expr: `sum by (class) (memprofd_heap_class_bytes{${PROGRAM}})`, legend: '{{class}}' }],
                { unit: UNIT.bytes, stacked: true, width: 24, legendRight: true, description: 'Reachable bytes ' +
                  'in the last heap snapshot that memprofd keeps or was asked for, by source type if the .cmt ' +
                  'files were found, else by shape. The numbers change with the next snapshot, which a ' +
                  'vertical line marks.' });
}

function lifetimes() {
  const quantile = (q: number, legend: string) =>
    ({ expr: `histogram_quantile(${q}, sum by (le) (${DEATHS}))`, legend });
  return [
    distribution('Lifetimes of dead memory', `sum by (le) (${DEATHS})`, { unit: UNIT.seconds, description:
      'Words that died per second, by the time from their allocation to the collection that found them dead.' }),
    series('Lifetime quantiles', [quantile(0.5, '50 %'), quantile(0.9, '90 %'), quantile(0.99, '99 %')],
           { unit: UNIT.seconds, logarithmic: true, description: 'Lifetimes of bytes that died, not of blocks. ' +
             'Bucket limits are a factor of 8 apart.' }),
    series('Promotion and death', [
      { expr: `sum(${rate('memprofd_promoted_bytes_total', PROGRAM)})`, legend: 'promoted' },
      { expr: `sum by (heap) (${rate('memprofd_deallocated_bytes_total', PROGRAM)})`, legend: 'died in the {{heap}} heap' },
    ], { unit: UNIT.bytesPerSecond, description: 'Bytes promoted and died per second, estimated from samples.' }),
    bars('Growth of live bytes in the time range', {
      expr: `topk($top, ${BY_SITE} - (${BY_SITE.replace('}', '} offset $__range')} or 0 * ${BY_SITE}))`,
      legend: '{{function}} {{location}}' },
         { unit: UNIT.bytes, width: 12, description: 'The sites whose live bytes grew most from the beginning ' +
           'to the end of the time range.' }),
  ];
}

export function target() {
  const board = dashboard(UID.target, 'One program', 'Memory of one OCaml program, over deploys, by site, age and lifetime. Byte ' +
                          'counts are estimates from samples, shown with their standard errors.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.program(), VARIABLES.pid(),
                VARIABLES.top()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.compactions(), ANNOTATIONS.ends(), ANNOTATIONS.rates(),
                  ANNOTATIONS.snapshots()]);
  summary().forEach((panel) => board.withPanel(panel));
  memory().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Processes')).withPanel(processes());
  board.withRow(new RowBuilder('Sites')).withPanel(liveBySite(false)).withPanel(allocationBySite())
    .withPanel(siteTable(false)).withRow(new RowBuilder('Heap snapshots')).withPanel(census())
    .withRow(new RowBuilder('Lifetimes'));
  lifetimes().forEach((panel) => board.withPanel(panel));
  return board;
}
