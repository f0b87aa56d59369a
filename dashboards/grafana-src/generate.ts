// SPDX-License-Identifier: Apache-2.0
// Writes the dashboards as JSON: node generate.js FOLDER

import { writeFileSync } from 'node:fs';
import { Dashboard, DashboardBuilder, Panel, RowPanel } from '@grafana/grafana-foundation-sdk/dashboard';
import { gc } from './gc';
import { health } from './health';
import { overview } from './overview';
import { site } from './site';
import { target } from './target';
import { values } from './values';

// Only features of Grafana 10.4 are used.
const SCHEMA_VERSION = 39;
const OLDEST_GRAFANA = '10.4.0';
const PLUGIN_NAMES: { [type: string]: string } = { timeseries: 'Time series', stat: 'Stat', table: 'Table',
  heatmap: 'Heatmap', bargauge: 'Bar gauge' };

// Requirements that Grafana's import page shows.
function requirements(dashboard: Dashboard) {
  const types = new Set((dashboard.panels ?? []).map((panel) => panel.type).filter((type) => type !== 'row'));
  return [
    { type: 'grafana', id: 'grafana', name: 'Grafana', version: OLDEST_GRAFANA },
    { type: 'datasource', id: 'prometheus', name: 'Prometheus', version: '1.0.0' },
    ...[...types].sort().map((id) => ({ type: 'panel', id, name: PLUGIN_NAMES[id], version: '' })),
  ];
}

// Removes keys that the SDK sets although they belong to other types, and those that would put links and annotations
// into a menu.
function withoutStrayKeys(dashboard: Dashboard) {
  for (const variable of dashboard.templating?.list ?? []) {
    for (const key of ['auto', 'auto_min', 'auto_count']) delete (variable as Record<string, any>)[key];
  }
  for (const entry of [...dashboard.links ?? [], ...dashboard.annotations?.list ?? []]) delete entry.placement;
  for (const panel of (dashboard.panels ?? []) as Panel[]) {
    if (panel.type === 'table') delete panel.options.footer;
  }
}

function finished(builder: DashboardBuilder) {
  const dashboard = builder.build();
  withoutStrayKeys(dashboard);
  (dashboard.panels ?? []).forEach((panel: Panel | RowPanel, index) => { panel.id = index + 1; });
  return { __inputs: [], __requires: requirements(dashboard), ...dashboard, schemaVersion: SCHEMA_VERSION };
}

const folder = process.argv[2];
for (const builder of [overview(), target(), site(), gc(), values(), health()]) {
  const dashboard = finished(builder);
  writeFileSync(`${folder}/${dashboard.uid}.json`, JSON.stringify(dashboard, null, 2) + '\n');
}
