// SPDX-License-Identifier: Apache-2.0
// All programs that memprofd profiles.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ANNOTATIONS, DAEMON, LOST_SHARE, PROGRAM, UID, VARIABLES, dashboard, linkTo, ofSampled, rate, sumOfErrors,
         withProgram } from './common';
import { Column, UNIT, grid, numbers, series } from './panels';
import { allocationBySite, liveBySite, siteTable } from './sites';

const BY = 'by (job, instance, pid)';
const PAUSES = `sum ${BY} (${rate('memprofd_ocaml_gc_pause_seconds_sum', PROGRAM)})`;
const NAMED = { legend: '{{program}}' };

function summary() {
  return [
    numbers('Programs', [{ expr: `sum(memprofd_target_up{${PROGRAM}})`, legend: 'sampled' },
                         { expr: `sum(1 - memprofd_target_up{${PROGRAM}})`, legend: 'ended' }],
            { unit: UNIT.count, description: 'Programs that are sampled now, and ended programs that memprofd ' +
              'still keeps.' }),
    numbers('Live', [{ expr: `sum${ofSampled(`memprofd_live_bytes{${PROGRAM}}`)}`, legend: 'live' },
                     { expr: `2 * ${sumOfErrors(ofSampled(`memprofd_live_bytes_stderr{${PROGRAM}}`))}`, legend: '± 2 s.e.' }],
            { unit: UNIT.bytes, description: 'Bytes allocated since the attach and not collected yet, of all ' +
              'sampled programs, with two standard errors.' }),
    numbers('Allocation rate', [{ expr: `sum(${rate('memprofd_allocated_bytes_total', PROGRAM)})`, legend: 'allocated' }],
            { unit: UNIT.bytesPerSecond, description: 'Bytes allocated per second, all programs.' }),
    numbers('Highest time in GC', [{ expr: `max(${PAUSES})`, legend: 'paused' }],
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
  const info = `memprofd_target_info{${PROGRAM}}`;
  const all = (expr: string) => `sum by (instance, pid, comm, mode, runtime_version) ((${expr}) ` +
    `* on (job, instance, pid) group_left (comm, mode, runtime_version) ${info})`;
  const target = linkTo(UID.target, ['job'], ['instance', 'pid']);
  const columns: Column[] = [
    { title: 'Program', label: 'comm', link: { title: 'This program', url: target } },
    { title: 'pid', label: 'pid' },
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
      expr: all(`sum ${BY} (${rate('memprofd_allocated_bytes_total', PROGRAM)})`) },
    { title: 'Time in GC', unit: UNIT.share, decimals: 1, expr: all(PAUSES) },
  ];
  return grid('Programs', columns, { sortBy: 'Live', height: 7,
                                     description: 'Click a program to open its dashboard.' });
}

function overTime() {
  const line = (title: string, expr: string, unit: string, description: string) =>
    series(title, [{ expr: withProgram(expr), ...NAMED }], { unit, description });
  return [
    line('Live bytes', ofSampled(`memprofd_live_bytes{${PROGRAM}}`), UNIT.bytes,
         'Bytes allocated since the attach and not collected yet. Estimates; the table above has their errors.'),
    line('Major heap', ofSampled(`memprofd_ocaml_heap_bytes{${PROGRAM}}`), UNIT.bytes,
         'Size of the major heap as the runtime reports it. It includes free words and blocks from before the ' +
         'attach.'),
    line('Allocation rate', `sum ${BY} (${rate('memprofd_allocated_bytes_total', PROGRAM)})`, UNIT.bytesPerSecond,
         'Bytes allocated per second in both heaps, estimated from samples.'),
    line('Promoted', `sum ${BY} (${rate('memprofd_ocaml_promoted_bytes_total', PROGRAM)})`, UNIT.bytesPerSecond,
         'Bytes per second that survive a minor collection, counted by the runtime. They are the work of the ' +
         'major collector.'),
    line('Time in GC', PAUSES, UNIT.share, 'Share of time for which the garbage collector pauses the program.'),
    line('Minor collections', `${rate('memprofd_ocaml_minor_collections_total', PROGRAM)}`, UNIT.perSecond,
         'Minor collections per second.'),
  ];
}

export function overview() {
  const board = dashboard(UID.overview, 'Overview', 'All OCaml programs that memprofd profiles: live memory, ' +
                          'allocation, and time in the garbage collector. Byte counts are estimates from ' +
                          'samples.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.everyPid(), VARIABLES.top()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.lost()]);
  summary().forEach((panel) => board.withPanel(panel));
  board.withPanel(programs()).withRow(new RowBuilder('Over time'));
  overTime().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Sites of all programs'))
    .withPanel(liveBySite(true)).withPanel(allocationBySite()).withPanel(siteTable(true));
  return board;
}
