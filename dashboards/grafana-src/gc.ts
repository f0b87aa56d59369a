// SPDX-License-Identifier: Apache-2.0
// The garbage collector of one or more programs.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ALL_PIDS, ANNOTATIONS, BY_PROGRAM, PROGRAM, UID, VARIABLES, dashboard, errorOfRate, rate } from './common';
import { UNIT, dashed, distribution, numbers, series, withError } from './panels';

const BY = 'by (program)';
const BUCKETS = (phase: string) => `sum by (le) (rate(memprofd_ocaml_gc_pause_seconds_bucket{${ALL_PIDS},phase="${phase}"}[$__rate_interval]))`;
const PAUSED = `sum by (phase) (${rate('memprofd_ocaml_gc_pause_seconds_sum', ALL_PIDS)})`;
const MINOR_WORDS = rate('memprofd_ocaml_minor_allocated_bytes_total', PROGRAM);

function summary() {
  const per = (metric: string) => `sum(${rate(metric, PROGRAM)})`;
  const p99 = (phase: string) => `histogram_quantile(0.99, ${BUCKETS(phase)})`;
  return [
    numbers('Collections per second', [{ expr: per('memprofd_ocaml_minor_collections_total'), legend: 'minor' },
                                     { expr: per('memprofd_ocaml_major_collections_total'), legend: 'major' }],
            { unit: UNIT.count, description: 'Counted by the runtime.' }),
    numbers('Pauses, p99', [{ expr: p99('minor'), legend: 'minor' }, { expr: p99('major_slice'), legend: 'major slice' }],
            { unit: UNIT.seconds, description: '99 % of the pauses are at most this long. Measured while ' +
              'sampling.' }),
    numbers('Time in GC', [{ expr: `sum(${PAUSED})`, legend: 'paused' }],
            { unit: UNIT.share, decimals: 2, thresholds: [[0.1, 'yellow'], [0.25, 'red']],
              description: 'Share of time in which the collector pauses the programs, summed over all programs.' }),
    numbers('Promoted', [{ expr: `${per('memprofd_ocaml_promoted_bytes_total')} / (sum(${MINOR_WORDS}) > 0)`, legend: 'promoted' }],
            { unit: UNIT.share, decimals: 1, description: 'Share of the minor heap that survives a minor ' +
              'collection, from the runtime\'s own counters.' }),
    numbers('Major heap', [{ expr: `sum(memprofd_ocaml_heap_bytes{${PROGRAM}})`, legend: 'now' },
                           { expr: `sum(memprofd_ocaml_top_heap_bytes{${PROGRAM}})`, legend: 'at most' }],
            { unit: UNIT.bytes, description: 'Current and largest size of the major heap.' }),
    numbers('Compactions', [{ expr: `sum(memprofd_ocaml_compactions_total{${PROGRAM}})`, legend: 'compactions' }],
            { unit: UNIT.count, description: 'Heap compactions since the programs started.' }),
  ];
}

function pauses() {
  const quantiles = (phase: string) => [0.5, 0.9, 0.99].map((q) => (
    { expr: `histogram_quantile(${q}, ${BUCKETS(phase)})`, legend: `p${q * 100}` }));
  return [
    series('Minor collection pauses', quantiles('minor'), { unit: UNIT.seconds, logarithmic: true,
           description: 'Of all processes of the programs. Bucket limits are a factor of 8 apart.' }),
    series('Major slice pauses', quantiles('major_slice'), { unit: UNIT.seconds, logarithmic: true,
           description: 'The major collector works in slices, most of them after a minor collection.' }),
    distribution('Minor collection pauses, all', BUCKETS('minor'), { unit: UNIT.seconds,
                 description: 'Pauses per second, by duration.' }),
    distribution('Major slice pauses, all', BUCKETS('major_slice'), { unit: UNIT.seconds,
                 description: 'Pauses per second, by duration.' }),
    series('Time in GC', [{ expr: PAUSED, legend: '{{phase}}' }], { unit: UNIT.share, stacked: true,
           description: 'Share of time for which the garbage collector pauses the programs.' }),
    series('Pauses by program, p99', [{ legend: BY_PROGRAM, expr:
      `histogram_quantile(0.99, sum by (program, le) (${rate('memprofd_ocaml_gc_pause_seconds_bucket', ALL_PIDS)}))` }],
           { unit: UNIT.seconds, description: '99 % of the pauses, of either kind, are at most this long.' }),
  ];
}

function collections() {
  const each = (metric: string) => `sum ${BY} (${rate(metric, PROGRAM)})`;
  const now = (gauge: string) => `sum ${BY} (${gauge}{${PROGRAM}})`;
  return [
    series('Minor collections', [{ expr: each('memprofd_ocaml_minor_collections_total'), legend: '{{program}}' }],
           { unit: UNIT.perSecond, description: 'Minor collections per second.' }),
    series('Major collections and compactions', [
      { expr: each('memprofd_ocaml_major_collections_total'), legend: '{{program}}: major cycles' },
      { expr: each('memprofd_ocaml_compactions_total'), legend: '{{program}}: compactions' }],
           { unit: UNIT.perSecond, description: 'Completed major cycles and compactions per second.' }),
    series('Heap', [
      { expr: now('memprofd_ocaml_heap_bytes'), legend: '{{program}}: heap' },
      { expr: now('memprofd_ocaml_top_heap_bytes'), legend: '{{program}}: largest so far' },
      { expr: now('memprofd_live_bytes'), legend: '{{program}}: live (estimate)' }],
           { unit: UNIT.bytes, description: 'Size of the major heap. Live bytes are those allocated since the ' +
             'attach in both heaps. The rest is older, free or fragmented.' }),
    series('Into the major heap', [
      { expr: `sum(${rate('memprofd_ocaml_promoted_bytes_total', PROGRAM)})`, legend: 'promoted' },
      { expr: `clamp_min(sum(${rate('memprofd_ocaml_major_allocated_bytes_total', PROGRAM)}) - ` +
              `sum(${rate('memprofd_ocaml_promoted_bytes_total', PROGRAM)}), 0)`, legend: 'allocated there ' +
                'directly' }],
           { unit: UNIT.bytesPerSecond, stacked: true, description: 'The work of the major collector, from the ' +
             'runtime\'s own counters. Blocks of more than 256 words are allocated in the major heap directly.' }),
  ];
}

// The runtime counts allocations, and sampling estimates them; both must agree.
function check() {
  const counted = `sum(${MINOR_WORDS}) + sum(${rate('memprofd_ocaml_major_allocated_bytes_total', PROGRAM)}) - ` +
                  `sum(${rate('memprofd_ocaml_promoted_bytes_total', PROGRAM)})`;
  const estimated = `sum(${rate('memprofd_allocated_bytes_total', PROGRAM)})`;
  return [
    series('Allocation: count and estimate', [
      ...withError(estimated, errorOfRate(`memprofd_allocated_bytes_stderr{${PROGRAM}}`), 'estimated from samples'),
      { expr: counted, legend: 'counted by the runtime' }],
           { unit: UNIT.bytesPerSecond, width: 16, description: 'The runtime\'s count should be within the ' +
             'band of two standard errors 95 % of the time. It advances with each minor collection.' })
      .overrideByName(...dashed('counted by the runtime')),
    series('Bytes per minor collection', [{ legend: BY_PROGRAM, expr:
      `sum ${BY} (${MINOR_WORDS}) / (sum ${BY} (${rate('memprofd_ocaml_minor_collections_total', PROGRAM)}) > 0)` }],
           { unit: UNIT.bytes, width: 8, description: 'Bytes allocated in the minor heap per minor collection: ' +
             'the size of the minor heap, or less if collections are forced.' }),
  ];
}

export function gc() {
  const board = dashboard(UID.gc, 'GC and pauses', 'Collections, pauses and heap of OCaml programs, from the ' +
                          'runtime\'s own counters.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.everyProgram(),
                VARIABLES.pid()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.compactions(), ANNOTATIONS.snapshots(), ANNOTATIONS.rates()]);
  summary().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Pauses'));
  pauses().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Collections and heap'));
  collections().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Accuracy of the estimates'));
  check().forEach((panel) => board.withPanel(panel));
  return board;
}
