// SPDX-License-Identifier: Apache-2.0
// What programs say about themselves: points, timers, values, tables, tags, beside their memory.

import { RowBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { ANNOTATIONS, PROGRAM, UID, VARIABLES, dashboard, ofSampled, rate } from './common';
import { UNIT, distribution, numbers, series } from './panels';

const HITS = rate('memprofd_point_hits_total', PROGRAM);
const BUSY = rate('memprofd_timer_seconds_total', PROGRAM);

// Timers and phases, whose names are labels of their own.
const ofBoth = (expr: (kind: string, selector: string) => string) => ['timer', 'phase'].map((kind) => (
  { expr: expr(kind, `${PROGRAM},${kind}!=""`), legend: `{{${kind}}}` }));
const seconds = (kind: string, selector: string) => `sum by (${kind}) (${rate('memprofd_timer_seconds_total', selector)})`;
const stops = (kind: string, selector: string) => `sum by (${kind}) (${rate('memprofd_timer_stops_total', selector)})`;

const limit = (share: number) =>
  `histogram_quantile(${share}, sum by (timer, le) (${rate('memprofd_timer_duration_seconds_bucket', PROGRAM)}))`;

function summary() {
  const sum = (metric: string) => `sum(${metric}{${PROGRAM}})`;
  return [
    numbers('Hits', [{ expr: `sum(${HITS})`, legend: 'of all points' }],
            { unit: UNIT.perSecond, description: 'Hits of all points a second.' }),
    numbers('Busy', [{ expr: `sum(${BUSY})`, legend: 'in all timers' }],
            { unit: UNIT.share, decimals: 1, description: 'Seconds a second that timers and phases have run, added up: above ' +
              '100 % where several run at once.' }),
    numbers('In tables', [{ expr: sum('memprofd_table_bindings'), legend: 'bindings' }],
            { unit: UNIT.count, description: 'Bindings of all tables that programs show.' }),
    numbers('Marked', [{ expr: sum('memprofd_tag_values'), legend: 'values' }, { expr: sum('memprofd_tag_bytes'), legend: 'memory' }],
            { unit: UNIT.count, description: 'Values that tags mark, and bytes that are reachable from them.' }),
    numbers('Without series', [{ expr: sum('memprofd_reported_names_without_series'), legend: 'names' }],
            { unit: UNIT.count, thresholds: [[1, 'yellow']], description: 'Names beyond the limit of 200 a program and 1,000 in all.' }),
    numbers('Refused', [{ expr: sum('memprofd_reported_refused_names_total'), legend: 'times' }],
            { unit: UNIT.count, thresholds: [[1, 'yellow']], description: 'Times that a program made a name for which its registry had no ' +
              'place.' }),
  ];
}

function activity() {
  return [
    series('Points', [{ expr: `sum by (point) (${HITS})`, legend: '{{point}}' }],
           { unit: UNIT.perSecond, signed: true, description: 'Hits a second, of all labels of a point together.' }),
    series('Memory', [{ expr: `sum(${ofSampled(`memprofd_live_bytes{${PROGRAM}}`)})`, legend: 'live' },
                      { expr: `sum(${ofSampled(`memprofd_ocaml_heap_bytes{${PROGRAM}}`)})`, legend: 'major heap' }],
           { unit: UNIT.bytes, description: 'Beside what the programs do: bytes allocated since the attach and not collected ' +
             'yet, an estimate, and the size of the major heap.' }),
    series('Timers and phases', ofBoth(seconds),
           { unit: UNIT.share, description: 'Seconds a second that they have run: above 100 % where several run at once.' }),
    series('Mean time of an interval', ofBoth((kind, selector) => `${seconds(kind, selector)} / ${stops(kind, selector)}`),
           { unit: UNIT.seconds, logarithmic: true, description: 'Time by the intervals that have ended.' }),
    series('Half of the intervals', [{ expr: limit(0.5), legend: '{{timer}}' }],
           { unit: UNIT.seconds, logarithmic: true, description: 'Half of the intervals of a timer are not longer.' }),
    series('99 % of the intervals', [{ expr: limit(0.99), legend: '{{timer}}' }],
           { unit: UNIT.seconds, logarithmic: true, description: '99 of 100 intervals of a timer are not longer.' }),
    series('Phases that run', [{ expr: `sum by (phase) (memprofd_timer_running{${PROGRAM},phase!=""})`, legend: '{{phase}}' }],
           { unit: UNIT.count, description: 'How many intervals of a phase have not ended.' }),
    series('Intervals that run', [{ expr: `sum by (timer) (memprofd_timer_running{${PROGRAM},timer!=""})`, legend: '{{timer}}' }],
           { unit: UNIT.count, description: 'The same of timers without tokens.' }),
  ];
}

function contents() {
  return [
    series('Values', [{ expr: `memprofd_value{${PROGRAM}}`, legend: '{{value}}' }],
           { unit: UNIT.count, signed: true, width: 24, description: 'Numbers that programs show, each with its own unit.' }),
    series('Tables', [{ expr: `sum by (table) (memprofd_table_bindings{${PROGRAM}})`, legend: '{{table}}' }],
           { unit: UNIT.count, description: 'Bindings. A table that only grows is a leak that no site tells of.' }),
    distribution('Buckets by their bindings', `sum by (le) (memprofd_table_bucket_bindings_bucket{${PROGRAM}})`,
                 { unit: UNIT.count, description: 'How many buckets have so many bindings, of all tables: full ones make a table slow.' }),
    series('Marked values', [{ expr: `sum by (tag) (memprofd_tag_values{${PROGRAM}})`, legend: '{{tag}}' }],
           { unit: UNIT.count, description: 'Values that a tag marks: alive, or not collected yet.' }),
    series('Memory of marked values', [{ expr: `sum by (tag) (memprofd_tag_bytes{${PROGRAM}})`, legend: '{{tag}}' }],
           { unit: UNIT.bytes, description: 'Reachable from them, what they share once.' }),
    series('Age of values', [{ expr: `max by (value) (memprofd_value_age_seconds{${PROGRAM}})`, legend: '{{value}}' }],
           { unit: UNIT.seconds, width: 24, description: 'Time since the program has set or evaluated a value. Functions of an idle ' +
             'program are not evaluated.' }),
  ];
}

export function values() {
  const board = dashboard(UID.values, 'Values', 'What programs say about themselves, by Memprof_values or memprof_values.h.')
    .variables([VARIABLES.datasource(), VARIABLES.job(), VARIABLES.instance(), VARIABLES.everyPid()])
    .annotations([ANNOTATIONS.alerts(), ANNOTATIONS.lost()]);
  summary().forEach((panel) => board.withPanel(panel));
  activity().forEach((panel) => board.withPanel(panel));
  board.withRow(new RowBuilder('What they hold'));
  contents().forEach((panel) => board.withPanel(panel));
  return board;
}
