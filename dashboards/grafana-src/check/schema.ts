// SPDX-License-Identifier: Apache-2.0
// Types of a valid dashboard in JSON, derived from Grafana's published types: dashboard and panels of
// @grafana/schema; options, field settings and overrides of each panel type; queries of the Prometheus data source.
// Assigning a literal with an unknown key is an error.

import { AnnotationQuery, Dashboard, FieldConfig, Panel, RowPanel, VariableModel } from '@grafana/schema';
import { Options as BarGauge } from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import { FieldConfig as HeatmapField, Options as Heatmap } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import { FieldConfig as TableField, Options as Table } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import { FieldConfig as TimeSeriesField, Options as TimeSeries } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import * as sdk from '@grafana/grafana-foundation-sdk/dashboard';
import { Dataquery } from '@grafana/grafana-foundation-sdk/prometheus';

// JSON holds the values of enums, not their names.
export type Json<T> = 0 extends 1 & T ? any
  : T extends string ? `${T}`
  : T extends number ? (`${T}` extends `${infer N extends number}` ? N : number)
  : T extends object ? { [K in keyof T]: Json<T[K]> } : T;

type Query = Omit<Dataquery, '_implementsDataqueryVariant' | 'refId' | 'datasource'> &
  { refId: string; datasource: { type: 'prometheus'; uid: string } };

type Property<Custom> =
  | { [K in keyof Custom & string]-?: { id: `custom.${K}`; value: Custom[K] } }[keyof Custom & string]
  | { [K in Exclude<keyof FieldConfig, 'custom'>]-?: { id: K; value: FieldConfig[K] } }[Exclude<keyof FieldConfig, 'custom'>];

interface Fields<Custom> {
  defaults: Omit<FieldConfig, 'custom'> & { custom?: Partial<Custom> };
  overrides: { matcher: { id: 'byName' | 'byRegexp'; options: string }; properties: Property<Custom>[] }[];
}

type PanelOf<Type, Options, Custom> = Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets' | 'datasource'> &
  { type: Type; id: number; title: string; description: string; options: Partial<Options>; fieldConfig: Fields<Custom>;
    targets: Query[]; datasource: { type: 'prometheus'; uid: string } };

type KnownPanel = PanelOf<'timeseries', TimeSeries, TimeSeriesField> | PanelOf<'stat', Stat, {}>
  | PanelOf<'bargauge', BarGauge, {}> | PanelOf<'heatmap', Heatmap, HeatmapField> | PanelOf<'table', Table, TableField>
  | RowPanel;

// Keys that Grafana's export and import add; the published schema lacks them.
interface Import {
  __inputs: never[];
  __requires: { type: 'grafana' | 'datasource' | 'panel'; id: string; name: string; version: string }[];
}

// Settings of data sources come from Grafana's Foundation SDK, because @grafana/schema lacks them.
type Variable = VariableModel & Pick<sdk.VariableModel, 'definition'>;
type Annotation = AnnotationQuery<Query> & Pick<sdk.AnnotationQuery, 'expr' | 'titleFormat' | 'textFormat'>;

type KnownDashboard = Omit<Dashboard, 'panels' | 'annotations' | 'templating'> &
  { uid: string; panels: KnownPanel[]; annotations: { list: Annotation[] }; templating: { list: Variable[] } };

export type ImportedDashboard = Import & Json<KnownDashboard>;
