// SPDX-License-Identifier: Apache-2.0
// memprofd's own input, losses and cost.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ANNOTATIONS, BY_PROCESS, DAEMON, LOST_SHARE, PROGRAM, UID, VARIABLES, dashboard, rate } from './common';
import { UNIT, bars, dashed, grid, numbers, series } from './panels';

function summary() {
  return [
    numbers('memprofd', [{ expr: `sum(up{${DAEMON}} * on (job, instance) group_left () memprofd_build_info{${DAEMON}})`,
                           legend: 'answer' },
                         { expr: `sum(memprofd_target_up{${DAEMON}})`, legend: 'programs' }],
            { unit: UNIT.count, description: 'Daemons that answer, and programs that they sample now.' }),
    numbers('Events lost', [{ expr: LOST_SHARE, legend: 'lost' }],
            { unit: UNIT.share, thresholds: [[0.001, 'yellow'], [0.01, 'red']], description: 'Share of the ' +
              'sampled events that was lost. If it exceeds 1 %, lower the sampling rate of busy programs ' +
              '(memprofctl rate).' }),
    numbers('CPU', [{ expr: `sum(${rate('memprofd_cpu_seconds_total', DAEMON)})`, legend: 'cores' }],
            { unit: UNIT.share, decimals: 2, description: 'CPU of memprofd, as a share of one core.' }),
    numbers('Memory', [{ expr: `sum(memprofd_resident_memory_bytes{${DAEMON}})`, legend: 'resident' },
                       { expr: `sum(memprofd_history_bytes{${DAEMON}})`, legend: 'history' }],
            { unit: UNIT.bytes, description: 'Resident memory of the daemons, and the part of it that is ' +
              'history.' }),
    numbers('Ring buffer in use', [{ expr: `max(memprofd_ring_buffer_used_ratio{${PROGRAM}})`, legend: 'fullest' }],
            { unit: UNIT.share, decimals: 1, thresholds: [[0.5, 'yellow'], [0.8, 'red']],
              description: 'Fill level of the fullest ring buffer. A full buffer loses events.' }),
    numbers('Longest stop', [{ expr: `max(memprofd_target_paused_seconds_total{${PROGRAM}})`, legend: 'at most' }],
            { unit: UNIT.seconds, description: 'The longest total time for which memprofd has stopped one ' +
              'program since the attach.' }),
  ];
}

function events() {
  return [
    series('Samples', [{ expr: `sum by (event) (${rate('memprofd_samples_total', PROGRAM)})`, legend: '{{event}}' }],
           { unit: UNIT.perSecond, description: 'Sampled blocks that were allocated, promoted and deallocated ' +
             'per second. Use this to choose the sampling rate: a few thousand per second are cheap.' }),
    series('Records read', [{ expr: `sum by (instance) (${rate('memprofd_events_total', DAEMON)})`, legend: '{{instance}}' }],
           { unit: UNIT.perSecond, description: 'Records read from the ring buffers per second.' }),
    series('Lost, by stage', [{ expr: `sum by (stage) (${rate('memprofd_dropped_events_total', DAEMON)})`, legend: '{{stage}}' }],
           { unit: UNIT.perSecond, stacked: true, description: 'Events lost per second. ' +
             'docs/internals/losses.md lists the reasons.' }),
    bars('Lost in the time range, by reason', { legend: '{{stage}}: {{reason}}',
      expr: `topk(10, sum by (stage, reason) (increase(memprofd_dropped_events_total{${DAEMON}}[$__range])))` },
         { unit: UNIT.count, width: 12, description: 'The ten reasons with the most lost events.' }),
    bars('Not followed in the time range, by reason', { legend: '{{stage}}: {{reason}}',
      expr: `topk(10, sum by (stage, reason) (increase(memprofd_given_up_events_total{${DAEMON}}[$__range])))` },
         { unit: UNIT.count, width: 24, description: 'Events that memprofd deliberately stopped following: ' +
           'sampling restarted, or the limit of followed blocks was reached. These are not losses.' }),
  ];
}

function cost() {
  return [
    series('CPU', [{ expr: rate('memprofd_cpu_seconds_total', DAEMON), legend: '{{instance}}' }],
           { unit: UNIT.share, width: 8, description: 'CPU of memprofd, as a share of one core.' }),
    series('Memory', [{ expr: `memprofd_resident_memory_bytes{${DAEMON}}`, legend: '{{instance}}: resident' },
                      { expr: `memprofd_history_bytes{${DAEMON}}`, legend: '{{instance}}: history' }],
           { unit: UNIT.bytes, width: 8, description: 'Resident memory, and the part of it that is history. ' +
             '--history.memory limits the history.' }),
    series('Scrapes', [{ expr: `scrape_duration_seconds{${DAEMON}}`, legend: '{{instance}}: duration' },
                       { expr: `memprofd_exported_series{${DAEMON}}`, legend: '{{instance}}: series' }],
           { unit: UNIT.seconds, width: 8, description: 'Time to answer a scrape by Prometheus, and the number ' +
             'of series.' })
      .overrideByRegexp('.*: series', dashed('', UNIT.count)[1]),
    series('Series held back', [{ expr: `sum by (kind) (memprofd_held_back_blocks{${DAEMON}})`, legend: '{{kind}}' }],
           { unit: UNIT.count, width: 8, description: 'Targets, or programs in the case of histograms, whose ' +
             'series of a kind are not exported because of --metrics.max-series.' }),
    series('Programs found, by outcome', [
      { expr: `sum by (outcome) (memprofd_discovered_programs{${DAEMON}})`, legend: '{{outcome}}' }],
           { unit: UNIT.count, width: 8, description: 'OCaml programs that run, by whether they are profiled or ' +
             'why not. memprofctl targets --all lists them.' }),
    series('Missed programs', [
      { expr: rate('memprofd_programs_ended_early_total', DAEMON), legend: '{{instance}}' }],
           { unit: UNIT.perSecond, width: 8, description: 'Programs per second that a --name rule names and ' +
             'that ended before they were profiled.' }),
    series('Ring buffers', [{ expr: `memprofd_ring_buffer_used_ratio{${PROGRAM}}`, legend: BY_PROCESS }],
           { unit: UNIT.share, width: 8, description: 'Share of each ring buffer that has not been read yet.' }),
    series('Followed blocks', [{ expr: `memprofd_live_samples{${PROGRAM}}`, legend: BY_PROCESS }],
           { unit: UNIT.count, width: 8, description: 'Sampled blocks that are alive. Each takes 33 to 64 ' +
             'bytes in memprofd.' }),
    series('Relative error of live bytes', [{ legend: BY_PROCESS, expr:
      `memprofd_live_bytes_stderr{${PROGRAM}} / (memprofd_live_bytes{${PROGRAM}} > 0)` }],
           { unit: UNIT.share, width: 8, description: 'One standard error as a share of the estimate. Four ' +
             'times the sampling rate halves the error.' }),
  ];
}

function targets() {
  const info = `memprofd_target_info{${PROGRAM}}`;
  const all = (expr: string) => `sum by (instance, pid, comm, exe, mode) ((${expr}) ` +
    `* on (job, instance, pid) group_left (comm, exe, mode) ${info})`;
  return grid('Targets', [
    { title: 'Program', label: 'comm' },
    { title: 'pid', label: 'pid' },
    { title: 'memprofd', label: 'instance' },
    { title: 'Executable', label: 'exe' },
    { title: 'Mode', label: 'mode' },
    { title: 'State', expr: all(`memprofd_target_up{${PROGRAM}}`),
      colours: { 1: { text: 'sampled', color: 'green' }, 0: { text: 'ended', color: 'orange' } } },
    { title: 'Sampling rate', unit: 'sci', expr: all(`memprofd_sampling_rate{${PROGRAM}}`) },
    { title: 'Samples per second', unit: UNIT.count, decimals: 1,
      expr: all(`sum by (job, instance, pid) (${rate('memprofd_samples_total', `${PROGRAM},event="alloc"`)})`) },
    { title: 'Duration of the attach', unit: UNIT.seconds, expr: all(`memprofd_attach_seconds{${PROGRAM}}`) },
    { title: 'Stopped for', unit: UNIT.seconds, expr: all(`memprofd_target_paused_seconds_total{${PROGRAM}}`) },
  ], { description: 'Each program with its sampling rate and the duration of its attach.', height: 7 });
}

export function health() {
  const board = dashboard(UID.health, 'Health of memprofd', 'Shows whether memprofd keeps up: events read, ' +
                          'events lost and why, and its cost.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.everyProgram(),
                VARIABLES.pid()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.ends(), ANNOTATIONS.rates()]);
  summary().forEach((panel) => board.withPanel(panel));
  board.withPanel(targets()).withRow(new RowBuilder('Events'));
  events().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Cost'));
  cost().forEach((panel) => board.withPanel(panel));
  return board;
}
