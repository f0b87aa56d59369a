// SPDX-License-Identifier: Apache-2.0
// Panels, queries and columns of all dashboards.

import * as bargauge from '@grafana/grafana-foundation-sdk/bargauge';
import * as common from '@grafana/grafana-foundation-sdk/common';
import { DynamicConfigValue, FieldColorBuilder, FieldColorModeId, Threshold,
         ThresholdsConfigBuilder, ThresholdsMode } from '@grafana/grafana-foundation-sdk/dashboard';
import * as heatmap from '@grafana/grafana-foundation-sdk/heatmap';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as table from '@grafana/grafana-foundation-sdk/table';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';

export const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

// Grafana's ids of units.
export const UNIT = { bytes: 'bytes', bytesPerSecond: 'binBps', share: 'percentunit', seconds: 's',
                      perSecond: 'cps', count: 'short', sigmas: 'suffix: σ' };

export interface Query {
  expr: string;
  legend: string;
}

const refId = (index: number) => String.fromCharCode('A'.charCodeAt(0) + index);

function target(query: Query, index: number) {
  return new DataqueryBuilder().refId(refId(index)).datasource(DATASOURCE).expr(query.expr)
    .legendFormat(query.legend);
}

// ---------------------------------------------------------------- series

export const LOWER = 'lower limit';
export const UPPER = 'upper limit';

// value with two standard errors to each side; estimates are never below zero.
export function withError(value: string, error: string, legend: string): Query[] {
  return [
    { expr: value, legend },
    { expr: `(${value}) + 2 * (${error})`, legend: UPPER },
    { expr: `clamp_min((${value}) - 2 * (${error}), 0)`, legend: LOWER },
  ];
}

export interface SeriesOptions {
  unit: string;
  description: string;
  width?: number;
  height?: number;
  stacked?: boolean;
  max?: number;
  logarithmic?: boolean;
  signed?: boolean;       // otherwise the axis begins at zero
  legendRight?: boolean;  // for many or long names
}

export function series(title: string, queries: Query[], options: SeriesOptions) {
  const panel = new timeseries.PanelBuilder().title(title).description(options.description)
    .datasource(DATASOURCE).unit(options.unit)
    .span(options.width ?? 12).height(options.height ?? 9)
    .lineWidth(options.stacked ? 1 : 2).fillOpacity(options.stacked ? 55 : 8)
    .showPoints(common.VisibilityMode.Never)
    .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.PaletteClassic))
    .legend(legend(options.legendRight ?? false))
    .tooltip(new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi)
      .sort(common.SortOrder.Descending));
  queries.forEach((query, index) => panel.withTarget(target(query, index).range()));
  if (options.stacked) {
    panel.stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal).group('A'));
  }
  if (!options.signed) panel.min(0);
  if (options.max !== undefined) panel.max(options.max);
  if (options.logarithmic) {
    panel.scaleDistribution(new common.ScaleDistributionConfigBuilder()
      .type(common.ScaleDistribution.Log).log(10));
  }
  if (queries.some((query) => query.legend === UPPER)) shadeBetweenLimits(panel);
  return panel;
}

function legend(right: boolean) {
  const builder = new common.VizLegendOptionsBuilder().displayMode(common.LegendDisplayMode.Table)
    .placement(right ? common.LegendPlacement.Right : common.LegendPlacement.Bottom)
    .showLegend(true).calcs(['lastNotNull', 'max']);
  return right ? builder.width(560) : builder;
}

function shadeBetweenLimits(panel: timeseries.PanelBuilder) {
  const unobtrusive: DynamicConfigValue[] = [
    { id: 'custom.lineWidth', value: 0 },
    { id: 'custom.hideFrom', value: { legend: true, tooltip: false, viz: false } },
    { id: 'color', value: { mode: 'fixed', fixedColor: 'semi-dark-blue' } },
  ];
  panel.overrideByName(UPPER, [...unobtrusive, { id: 'custom.fillBelowTo', value: LOWER },
                               { id: 'custom.fillOpacity', value: 20 }]);
  panel.overrideByName(LOWER, [...unobtrusive, { id: 'custom.fillOpacity', value: 0 }]);
}

// Draws a query as a dashed line; a unit puts it on an axis of its own at the right.
export function dashed(legend: string, unit?: string): [string, DynamicConfigValue[]] {
  const properties: DynamicConfigValue[] = [
    { id: 'custom.lineStyle', value: { fill: 'dash', dash: [8, 6] } },
    { id: 'custom.fillOpacity', value: 0 },
    { id: 'custom.stacking', value: { mode: 'none', group: 'B' } },
  ];
  if (unit !== undefined) {
    properties.push({ id: 'unit', value: unit }, { id: 'custom.axisPlacement', value: 'right' });
  }
  return [legend, properties];
}

// ---------------------------------------------------------------- numbers

export interface NumberOptions {
  unit: string;
  description: string;
  width?: number;
  thresholds?: [number, string][];  // from each value, the colour
  decimals?: number;
}

export function numbers(title: string, queries: Query[], options: NumberOptions) {
  const steps: Threshold[] = [{ value: null, color: options.thresholds ? 'green' : 'text' },
    ...(options.thresholds ?? []).map(([value, color]) => ({ value, color }))];
  const panel = new stat.PanelBuilder().title(title).description(options.description)
    .datasource(DATASOURCE).unit(options.unit).span(options.width ?? 4).height(4)
    .colorMode(common.BigValueColorMode.Value).graphMode(common.BigValueGraphMode.None)
    .justifyMode(common.BigValueJustifyMode.Center).orientation(common.VizOrientation.Horizontal)
    .textMode(queries.length > 1 ? common.BigValueTextMode.ValueAndName : common.BigValueTextMode.Value)
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).values(false))
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps));
  if (options.decimals !== undefined) panel.decimals(options.decimals);
  queries.forEach((query, index) => panel.withTarget(target(query, index).instant()));
  return panel;
}

export function bars(title: string, query: Query, options: NumberOptions) {
  return new bargauge.PanelBuilder().title(title).description(options.description)
    .datasource(DATASOURCE).unit(options.unit).span(options.width ?? 8).height(9).min(0)
    .orientation(common.VizOrientation.Horizontal).displayMode(common.BarGaugeDisplayMode.Gradient)
    .valueMode(common.BarGaugeValueMode.Color).showUnfilled(true)
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).values(false))
    .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.ContinuousBlPu))
    .withTarget(target(query, 0).instant());
}

// ---------------------------------------------------------------- distributions

// expr: counts per second by le, as for a histogram.
export function distribution(title: string, expr: string, options: Omit<SeriesOptions, 'stacked'>) {
  return new heatmap.PanelBuilder().title(title).description(options.description)
    .datasource(DATASOURCE).span(options.width ?? 12).height(options.height ?? 9)
    .calculate(false).cellGap(1)
    .color(new heatmap.HeatmapColorOptionsBuilder().mode(heatmap.HeatmapColorMode.Scheme)
      .scheme('Turbo').steps(64).exponent(0.5).fill('dark-orange').reverse(false)
      .scale(heatmap.HeatmapColorScale.Exponential))
    .yAxis(new heatmap.YAxisConfigBuilder().unit(options.unit).axisPlacement(common.AxisPlacement.Left))
    .filterValues(new heatmap.FilterValueRangeBuilder().le(1e-9))
    .showLegend()
    .withTarget(target({ expr, legend: '{{le}}' }, 0).range().format(PromQueryFormat.Heatmap));
}

// ---------------------------------------------------------------- tables

export interface Column {
  title: string;
  expr?: string;   // without it, a label
  label?: string;  // name of the label, without expr
  unit?: string;
  decimals?: number;
  colours?: { [value: string]: { text: string; color: string } };
  link?: { title: string; url: string };
  width?: number;
}

// One row per combination of the label columns; all expressions have the same labels.
export function grid(title: string, columns: Column[], options:
                     { description: string; height?: number; width?: number; sortBy?: string }) {
  const panel = new table.PanelBuilder().title(title).description(options.description)
    .datasource(DATASOURCE).span(options.width ?? 24).height(options.height ?? 9)
    .cellHeight(common.TableCellHeight.Sm);
  const nameOf = new Map<Column, string>();
  columns.filter((column) => column.expr !== undefined).forEach((column, index) => {
    nameOf.set(column, `Value #${refId(index)}`);
    panel.withTarget(target({ expr: column.expr!, legend: column.title }, index).instant()
      .format(PromQueryFormat.Table));
  });
  const fieldOf = (column: Column) => column.label ?? nameOf.get(column)!;
  panel.withTransformation({ id: 'merge', options: {} });
  panel.withTransformation({ id: 'organize', options: {
    excludeByName: { Time: true },
    indexByName: Object.fromEntries(columns.map((column, index) => [fieldOf(column), index])),
    renameByName: Object.fromEntries(columns.map((column) => [fieldOf(column), column.title])),
    includeByName: {},
  } });
  for (const column of columns) {
    const properties = propertiesOf(column);
    if (properties.length > 0) panel.overrideByName(column.title, properties);
  }
  if (options.sortBy !== undefined) {
    panel.sortBy([new common.TableSortByFieldStateBuilder().displayName(options.sortBy).desc(true)]);
  }
  return panel;
}

function propertiesOf(column: Column): DynamicConfigValue[] {
  const properties: DynamicConfigValue[] = [];
  if (column.unit !== undefined) properties.push({ id: 'unit', value: column.unit });
  if (column.decimals !== undefined) properties.push({ id: 'decimals', value: column.decimals });
  if (column.width !== undefined) properties.push({ id: 'custom.width', value: column.width });
  if (column.link !== undefined) properties.push({ id: 'links', value: [column.link] });
  if (column.colours !== undefined) {
    properties.push({ id: 'mappings', value: [{ type: 'value', options: column.colours }] },
                    { id: 'custom.cellOptions', value: { type: 'color-text' } });
  }
  return properties;
}

