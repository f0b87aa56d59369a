// SPDX-License-Identifier: Apache-2.0
// Published values of programs beside their memory: points, timers, values, tables, tags.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ANNOTATIONS, PROGRAM, UID, VARIABLES, dashboard, ofSampled, rate } from './common';
import { UNIT, distribution, numbers, series } from './panels';

const HITS = rate('memprofd_point_hits_total', PROGRAM);
const BUSY = rate('memprofd_timer_seconds_total', PROGRAM);

// Timers and phases have labels of different names.
const ofBoth = (expr: (kind: string, selector: string) => string) => ['timer', 'phase'].map((kind) => (
  { expr: expr(kind, `${PROGRAM},${kind}!=""`), legend: `{{${kind}}}` }));
const seconds = (kind: string, selector: string) => `sum by (${kind}) (${rate('memprofd_timer_seconds_total', selector)})`;
const stops = (kind: string, selector: string) => `sum by (${kind}) (${rate('memprofd_timer_stops_total', selector)})`;

const limit = (share: number) =>
  `histogram_quantile(${share}, sum by (timer, le) (${rate('memprofd_timer_duration_seconds_bucket', PROGRAM)}))`;

function summary() {
  const sum = (metric: string) => `sum(${metric}{${PROGRAM}})`;
  return [
    numbers('Hits', [{ expr: `sum(${HITS})`, legend: 'hits' }],
            { unit: UNIT.perSecond, description: 'Hits of all points per second.' }),
    numbers('Busy', [{ expr: `sum(${BUSY})`, legend: 'in all timers' }],
            { unit: UNIT.share, decimals: 1, description: 'Time in timers and phases, summed. It exceeds 100 % ' +
              'if several run at once.' }),
    numbers('Bindings', [{ expr: sum('memprofd_table_bindings'), legend: 'bindings' }],
            { unit: UNIT.count, description: 'Bindings of all published tables.' }),
    numbers('Tagged', [{ expr: sum('memprofd_tag_values'), legend: 'values' }, { expr: sum('memprofd_tag_bytes'), legend: 'memory' }],
            { unit: UNIT.count, description: 'Values with a tag, and the memory reachable from them.' }),
    numbers('Without series', [{ expr: sum('memprofd_reported_names_without_series'), legend: 'names' }],
            { unit: UNIT.count, thresholds: [[1, 'yellow']], description: 'Published names beyond the limits ' +
              'of 200 per program and 1,000 in all.' }),
    numbers('Refused', [{ expr: sum('memprofd_reported_refused_names_total'), legend: 'times' }],
            { unit: UNIT.count, thresholds: [[1, 'yellow']], description: 'Number of times that a program ' +
              'published a new name while its registry was full.' }),
  ];
}

function activity() {
  return [
    series('Points', [{ expr: `sum by (point) (${HITS})`, legend: '{{point}}' }],
           { unit: UNIT.perSecond, signed: true, description: 'Hits per second, summed over all labels of a ' +
             'point.' }),
    series('Memory', [{ expr: `sum(${ofSampled(`memprofd_live_bytes{${PROGRAM}}`)})`, legend: 'live' },
                      { expr: `sum(${ofSampled(`memprofd_ocaml_heap_bytes{${PROGRAM}}`)})`, legend: 'major heap' }],
           { unit: UNIT.bytes, description: 'Bytes allocated since the attach and not collected yet (an ' +
             'estimate), and the size of the major heap, for comparison.' }),
    series('Timers and phases', ofBoth(seconds),
           { unit: UNIT.share, description: 'Share of time in each timer and phase. It exceeds 100 % if ' +
             'several run at once.' }),
    series('Mean duration', ofBoth((kind, selector) => `${seconds(kind, selector)} / ${stops(kind, selector)}`),
           { unit: UNIT.seconds, logarithmic: true, description: 'Mean duration of the intervals that have ' +
             'ended.' }),
    series('Median duration', [{ expr: limit(0.5), legend: '{{timer}}' }],
           { unit: UNIT.seconds, logarithmic: true, description: 'Half of the intervals of a timer are at most ' +
             'this long.' }),
    series('99th percentile of the duration', [{ expr: limit(0.99), legend: '{{timer}}' }],
           { unit: UNIT.seconds, logarithmic: true, description: '99 % of the intervals of a timer are at most ' +
             'this long.' }),
    series('Running phases', [{ expr: `sum by (phase) (memprofd_timer_running{${PROGRAM},phase!=""})`, legend: '{{phase}}' }],
           { unit: UNIT.count, description: 'Number of intervals of each phase that have not ended.' }),
    series('Running timers', [{ expr: `sum by (timer) (memprofd_timer_running{${PROGRAM},timer!=""})`, legend: '{{timer}}' }],
           { unit: UNIT.count, description: 'Number of intervals that have not ended, for timers without ' +
             'tokens.' }),
  ];
}

function contents() {
  return [
    series('Values', [{ expr: `memprofd_value{${PROGRAM}}`, legend: '{{value}}' }],
           { unit: UNIT.count, signed: true, width: 24, description: 'Published numbers, each in its own unit.' }),
    series('Tables', [{ expr: `sum by (table) (memprofd_table_bindings{${PROGRAM}})`, legend: '{{table}}' }],
           { unit: UNIT.count, description: 'Bindings of each table. A table that only grows is a leak that no ' +
             'allocation site reveals.' }),
    distribution('Buckets by number of bindings', `sum by (le) (memprofd_table_bucket_bindings_bucket{${PROGRAM}})`,
                 { unit: UNIT.count, description: 'Number of buckets with this many bindings, over all tables. ' +
                   'Full buckets make a table slow.' }),
    series('Tagged values', [{ expr: `sum by (tag) (memprofd_tag_values{${PROGRAM}})`, legend: '{{tag}}' }],
           { unit: UNIT.count, description: 'Values with each tag that are alive or not collected yet.' }),
    series('Memory of tagged values', [{ expr: `sum by (tag) (memprofd_tag_bytes{${PROGRAM}})`, legend: '{{tag}}' }],
           { unit: UNIT.bytes, description: 'Memory reachable from these values; shared memory counts once.' }),
    series('Age of values', [{ expr: `max by (value) (memprofd_value_age_seconds{${PROGRAM}})`, legend: '{{value}}' }],
           { unit: UNIT.seconds, width: 24, description: 'Time since the program set or evaluated a value. An ' +
             'idle program does not evaluate its functions.' }),
  ];
}

export function values() {
  const board = dashboard(UID.values, 'Values', 'Values that programs publish through Memprof_values or ' +
    'memprof_values.h.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.everyProgram(),
                VARIABLES.pid()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.ends()]);
  summary().forEach((panel) => board.withPanel(panel));
  activity().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('Values and tables'));
  contents().forEach((panel) => board.withPanel(panel));
  return board;
}
