// SPDX-License-Identifier: Apache-2.0
// All profiled programs.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ALL_PIDS, ANNOTATIONS, BY_PROGRAM, DAEMON, LOST_SHARE, PROGRAM, UID, VARIABLES, dashboard, linkTo, ofSampled, rate,
         sumOfErrors } from './common';
import { Column, UNIT, grid, numbers, series } from './panels';
import { allocationBySite, liveBySite, siteTable } from './sites';

const BY = 'by (instance, program)';
const PAUSES = (by: string) => `sum ${by} (${rate('memprofd_ocaml_gc_pause_seconds_sum', ALL_PIDS)})`;

function summary() {
  return [
    numbers('Processes', [{ expr: `sum(memprofd_target_up{${PROGRAM}})`, legend: 'sampled' },
                          { expr: `sum(memprofd_discovered_programs{${DAEMON},outcome!~"profiled|observed|waiting"})`,
                            legend: 'not profiled' }],
            { unit: UNIT.count, description: 'Processes that are sampled now, and OCaml processes that are not ' +
              'profiled. memprofctl targets --all shows why.' }),
    numbers('Live', [{ expr: `sum${ofSampled(`memprofd_live_bytes{${PROGRAM}}`)}`, legend: 'live' },
                     { expr: `2 * ${sumOfErrors(ofSampled(`memprofd_live_bytes_stderr{${PROGRAM}}`))}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytes, description: 'Bytes allocated since the attach and not collected yet, of all ' +
              'sampled programs, with two standard errors.' }),
    numbers('Allocation rate', [{ expr: `sum(${rate('memprofd_allocated_bytes_total', PROGRAM)})`, legend: 'allocated' }],
            { unit: UNIT.bytesPerSecond, description: 'Bytes allocated per second, all programs.' }),
    numbers('Highest time in GC', [{ expr: `max(${PAUSES('by (program)')})`, legend: 'paused' }],
            { unit: UNIT.share, thresholds: [[0.1, 'yellow'], [0.25, 'red']],
              description: 'Highest share of time for which the garbage collector pauses a program.' }),
    numbers('Events lost', [{ expr: LOST_SHARE, legend: 'lost' }],
            { unit: UNIT.share, thresholds: [[0.001, 'yellow'], [0.01, 'red']],
              description: 'Share of the sampled events that was lost. If it exceeds 1 %, lower the sampling ' +
                'rate.' }),
    numbers('Alerts', [{ expr: `count(ALERTS{alertstate="firing",alertname=~"Ocaml.*|Memprofd.*",${DAEMON}}) or vector(0)`,
                         legend: 'firing' }],
            { unit: UNIT.count, thresholds: [[1, 'red']], description: 'Alerts of memprofd\'s rules that fire ' +
              'now. Also zero if Prometheus has not loaded the rules.' }),
  ];
}

function programs() {
  const all = (expr: string) => `sum ${BY} (${expr})`;
  const target = linkTo(UID.target, ['job'], ['instance', 'program']);
  const columns: Column[] = [
    { title: 'Program', label: 'program', link: { title: 'This program', url: target } },
    { title: 'memprofd', label: 'instance' },
    { title: 'Processes', unit: UNIT.count, expr: all(`memprofd_target_up{${PROGRAM}}`) },
    { title: 'Ended', unit: UNIT.count, expr: all(`1 - memprofd_target_up{${PROGRAM}}`) },
    { title: 'One sample stands for', unit: UNIT.bytes, expr: `8 / (avg ${BY} (memprofd_sampling_rate{${PROGRAM}}) > 0)` },
    { title: 'Live', unit: UNIT.bytes, expr: all(`memprofd_live_bytes{${PROGRAM}}`) },
    { title: '± 2 s.e.', unit: UNIT.bytes, expr: `2 * ${sumOfErrors(`memprofd_live_bytes_stderr{${PROGRAM}}`, ` ${BY} `)}` },
    { title: 'Major heap', unit: UNIT.bytes, expr: all(`memprofd_ocaml_heap_bytes{${PROGRAM}}`) },
    { title: 'Allocation rate', unit: UNIT.bytesPerSecond, expr: all(rate('memprofd_allocated_bytes_total', PROGRAM)) },
    { title: 'Time in GC', unit: UNIT.share, decimals: 1, expr: PAUSES(BY) },
  ];
  return grid('Programs', columns, { sortBy: 'Live', height: 7,
                                     description: 'Click a program to open its dashboard.' });
}

function overTime() {
  const line = (title: string, expr: string, unit: string, description: string) =>
    series(title, [{ expr: `sum by (program) (${expr})`, legend: BY_PROGRAM }], { unit, description });
  return [
    line('Live bytes', ofSampled(`memprofd_live_bytes{${PROGRAM}}`), UNIT.bytes,
         'Bytes allocated since the attach and not collected yet. Estimates; the table above has their errors.'),
    line('Major heap', ofSampled(`memprofd_ocaml_heap_bytes{${PROGRAM}}`), UNIT.bytes,
         'Size of the major heap as the runtime reports it. It includes free words and blocks from before the ' +
         'attach.'),
    line('Allocation rate', rate('memprofd_allocated_bytes_total', PROGRAM), UNIT.bytesPerSecond,
         'Bytes allocated per second in both heaps, estimated from samples.'),
    line('Promoted', rate('memprofd_ocaml_promoted_bytes_total', PROGRAM), UNIT.bytesPerSecond,
         'Bytes per second that survive a minor collection, counted by the runtime. They are the work of the ' +
         'major collector.'),
    line('Time in GC', rate('memprofd_ocaml_gc_pause_seconds_sum', ALL_PIDS), UNIT.share,
         'Share of time for which the garbage collector pauses the program, summed over its processes.'),
    line('Minor collections', rate('memprofd_ocaml_minor_collections_total', PROGRAM), UNIT.perSecond,
         'Minor collections per second.'),
  ];
}

export function overview() {
  const board = dashboard(UID.overview, 'Overview', 'All OCaml programs that memprofd profiles: live memory, ' +
                          'allocation, and time in the garbage collector. Byte counts are estimates from ' +
                          'samples.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.everyProgram(),
                VARIABLES.pid(), VARIABLES.top()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.ends(), ANNOTATIONS.rates()]);
  summary().forEach((panel) => board.withPanel(panel));
  board.withPanel(programs()).withRow(new RowBuilder('Over time'));
  overTime().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Sites of all programs'))
    .withPanel(liveBySite(true)).withPanel(allocationBySite()).withPanel(siteTable(true));
  return board;
}
