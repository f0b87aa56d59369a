// SPDX-License-Identifier: Apache-2.0
// Shared by all dashboards: variables, selectors, links, annotations.

import { AnnotationQueryBuilder, CustomVariableBuilder, DashboardBuilder, DashboardCursorSync,
         DashboardLinkBuilder, DashboardLinkType, DatasourceVariableBuilder, QueryVariableBuilder,
         VariableRefresh, VariableSort } from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { DATASOURCE } from './panels';

export const UID = { overview: 'memprofd-overview', target: 'memprofd-target', site: 'memprofd-site',
                     gc: 'memprofd-gc', values: 'memprofd-values', health: 'memprofd-health' };

// ---------------------------------------------------------------- selectors

export const DAEMON = 'job=~"$job",instance=~"$instance"';
// Histograms of lifetimes and pauses are by program; all other series also have a pid.
export const ALL_PIDS = `${DAEMON},program=~"$program"`;
export const PROGRAM = `${ALL_PIDS},pid=~"$pid"`;
const ofSite = (selector: string) => `${selector},function=~"$function",location=~"$location"`;
export const SITE = ofSite(PROGRAM);
export const SITE_ALL_PIDS = ofSite(ALL_PIDS);

export const rate = (metric: string, selector: string) =>
  `rate(${metric}{${selector}}[$__rate_interval])`;

// Restricts a gauge to running programs; an ended one keeps its last values. modifier: "@ end()" or nothing.
export const ofSampled = (gauge: string, modifier = '') =>
  `(${gauge} ${modifier} and on (job, instance, pid) memprofd_target_up{${PROGRAM}} ${modifier} == 1)`
    .replaceAll('  ', ' ');

// Error of a sum of independent estimates.
export const sumOfErrors = (stderr: string, by = '') => `sqrt(sum${by}(${stderr} ^ 2))`;

// Standard error of the rate of an estimated counter. Between two scrapes, the counter's variance grows by the
// variance of the new counts.
export function errorOfRate(stderr: string) {
  const before = `${stderr} offset $__rate_interval`;
  return `sqrt(sum(${stderr} ^ 2 - (${before}) ^ 2)) / max(timestamp(${stderr}) - timestamp(${before}))`;
}

// Legends for a series per program, and for one per process.
export const BY_PROGRAM = '{{program}}';
export const BY_PROCESS = '{{program}} {{pid}}';

// Rate of lost samples, promotions, deallocations or callstacks, like the rule
// instance:memprofd_dropped_events:ratio5m.
const lostOf = (which: string) => `sum(${rate('memprofd_dropped_events_total', `${DAEMON},${which}`)})`;
export const LOST_SHARE = `${lostOf('stage=~"decode|pair|follow"')} / (sum(${rate('memprofd_samples_total', PROGRAM)}) + ` +
  `${lostOf('reason="lost_records"')} > 0) or vector(0)`;

// ---------------------------------------------------------------- variables

const datasource = () => new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus');

function query(name: string, label: string, expression: string) {
  return new QueryVariableBuilder(name).label(label).datasource(DATASOURCE)
    .query({ query: expression, refId: `variable-${name}`, qryType: expression.startsWith('label') ? 1 : 3 })
    .definition(expression).refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc);
}

const everything = (variable: QueryVariableBuilder) => variable.multi(true).includeAll(true).allValue('.*')
  .current({ selected: true, text: ['All'], value: ['$__all'] });

const job = () => everything(query('job', 'Job', 'label_values(memprofd_build_info, job)'));
const instance = () => everything(
  query('instance', 'memprofd', 'label_values(memprofd_build_info{job=~"$job"}, instance)'));

// Includes programs that ended within the time range. A program continues over deploys; select a process for details.
const program = () => query('program', 'Program', `label_values(memprofd_target_info{${DAEMON}}, program)`);
const pid = () => everything(query('pid', 'Process', `label_values(memprofd_target_info{${ALL_PIDS}}, pid)`)
  .sort(VariableSort.NumericalDesc));

// Functions with the most live bytes first.
const functions = () => query('function', 'Function',
  `query_result(sort_desc(sum by (function) (last_over_time(memprofd_site_live_bytes{${PROGRAM}}[$__range]))))`)
  .regex('/function="(.*)"}/').sort(VariableSort.Disabled).multi(true);
const location = () => everything(query('location', 'Location',
  `label_values(memprofd_site_allocated_bytes_total{${PROGRAM},function=~"$function"}, location)`));
const top = () => new CustomVariableBuilder('top').label('Sites shown').values('5,10,20,50')
  .current({ selected: true, text: '10', value: '10' })
  .options(['5', '10', '20', '50'].map((n) => ({ selected: n === '10', text: n, value: n })));

export const VARIABLES = { datasource, job, instance, program, everyProgram: () => everything(program()), pid,
                           functions, location, top };

// ---------------------------------------------------------------- links

// kept: variables that keep their values; fields: labels of the table's row.
export const linkTo = (uid: string, kept: string[], fields: string[]) => `/d/${uid}?` +
  [...['datasource', ...kept].map((name) => '${' + name + ':queryparam}'),
   ...fields.map((name) => `var-${name}=` + '${__data.fields.' + name + '}'), '${__url_time_range}'].join('&');

const BOARDS = [
  { uid: UID.overview, title: 'Overview', oneProgram: false },
  { uid: UID.target, title: 'Program', oneProgram: true },
  { uid: UID.site, title: 'Site', oneProgram: true },
  { uid: UID.gc, title: 'GC', oneProgram: false },
  { uid: UID.values, title: 'Values', oneProgram: false },
  { uid: UID.health, title: 'Health', oneProgram: false },
];

// Links to all other dashboards, with the current selection; a program is passed on only if it is one.
function others(uid: string) {
  const here = BOARDS.find((board) => board.uid === uid)!;
  return BOARDS.filter((board) => board !== here).map(({ uid: there, title }) => {
    const kept = ['datasource', 'job', 'instance',
                  ...(here.oneProgram && there !== UID.overview ? ['program', 'pid'] : [])];
    const values = kept.map((name) => '${' + name + ':queryparam}').join('&');
    return new DashboardLinkBuilder(title).type(DashboardLinkType.Link).icon('dashboard').tags([])
      .url(`/d/${there}?${values}`).keepTime(true);
  });
}

// ---------------------------------------------------------------- annotations

function annotation(name: string, colour: string, expr: string, title: string, text: string) {
  return new AnnotationQueryBuilder().name(name).datasource(DATASOURCE).enable(true).iconColor(colour)
    .titleFormat(title).textFormat(text).expr(expr)
    .target(new DataqueryBuilder().refId('Anno').datasource(DATASOURCE).expr(expr).range());
}

const alerts = () => annotation('Alerts', 'red',
  `ALERTS{alertstate="firing",alertname=~"Ocaml.*|Memprofd.*",${DAEMON}}`,
  '{{alertname}}', '{{program}} {{pid}} {{function}} {{location}}');
const compactions = () => annotation('Compactions', 'purple',
  `increase(memprofd_ocaml_compactions_total{${PROGRAM}}[$__rate_interval]) > 0`,
  'Heap compaction', '{{program}} {{pid}}');
const ends = () => annotation('Ends', 'orange',
  `memprofd_target_up{${PROGRAM}} == 0 and memprofd_target_up{${PROGRAM}} offset $__rate_interval == 1`,
  'Ended or no longer profiled', '{{program}} {{pid}}');
// Changes by the budget, by --cpu.max or on request. On OCaml 4 live memory then restarts at zero.
const rates = () => annotation('Sampling rate changes', 'yellow',
  `changes(memprofd_sampling_rate{${PROGRAM}}[$__rate_interval]) > 0`,
  'Sampling rate changed', '{{program}} {{pid}}');
const snapshots = () => annotation('Heap snapshots', 'blue',
  `increase(memprofd_target_heap_snapshots_total{${PROGRAM}}[$__rate_interval]) > 0`,
  'Heap snapshot', '{{program}} {{pid}}');

export const ANNOTATIONS = { alerts, compactions, ends, rates, snapshots };

// ---------------------------------------------------------------- dashboards

export function dashboard(uid: string, title: string, description: string) {
  return new DashboardBuilder(`memprofd / ${title}`).uid(uid).description(description)
    .tags(['memprofd', 'ocaml', 'memory']).id(null).editable().timezone('browser').refresh('30s')
    .time({ from: 'now-30m', to: 'now' }).tooltip(DashboardCursorSync.Crosshair).version(1).links(others(uid));
}
