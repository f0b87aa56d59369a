// SPDX-License-Identifier: Apache-2.0
// Panels that show numbers: stat, bar gauge, table.
'use strict';

const latest = (series) => series.values.at(-1)[1];

function thresholdColour(panel, value) {
  const steps = panel.fieldConfig.defaults.thresholds?.steps ?? [];
  return colourOf(steps.filter((step) => step.value === null || value >= step.value).at(-1)?.color ?? 'text');
}

function drawStat(panel, body) {
  body.classList.add('stat');
  for (const series of seriesOf(panel)) {
    const { unit, decimals } = series.config, value = latest(series);
    const number = element('div', { className: 'value' },
                           Number.isNaN(value) ? 'No data' : format(value, unit, decimals));
    number.style.color = thresholdColour(panel, value);
    const named = panel.options.textMode === 'value_and_name' ? [element('div', { className: 'name' }, series.name)] : [];
    body.append(element('div', {}, ...named, number));
  }
}

function drawBars(panel, body) {
  const series = seriesOf(panel).sort((a, b) => latest(b) - latest(a));
  const most = Math.max(...series.map(latest), 1e-9);
  for (const one of series.slice(0, 10)) {
    const share = Math.max(0, latest(one) / most);
    const bar = element('div', { className: 'bar' });
    bar.style.width = `${share * 100}%`;
    body.append(element('div', { className: 'bars' }, element('span', { className: 'label' }, one.name),
      element('div', { className: 'track' }, bar),
      element('span', { className: 'number' }, format(latest(one), one.config.unit, one.config.decimals))));
  }
}

// ---------------------------------------------------------------- tables

// Grafana's merge: rows with equal labels become one row with one column for each query's value.
function merged(panel) {
  const rows = new Map();
  panel.targets.forEach((target, index) => {
    for (const { metric, value } of panel.results[index]) {
      const { __name__, ...labels } = metric;
      const key = JSON.stringify(Object.entries(labels).sort());
      if (!rows.has(key)) rows.set(key, { ...labels });
      rows.get(key)[`Value #${target.refId}`] = Number(value[1]);
    }
  });
  return [...rows.values()];
}

// Fields in the order of the organize transformation; Grafana puts unknown ones last. Labels that
// Prometheus adds get no column.
function columnsOf(panel) {
  const { indexByName, renameByName } = panel.transformations.find(({ id }) => id === 'organize').options;
  return Object.entries(indexByName).sort(([, a], [, b]) => a - b)
    .map(([field]) => ({ field, title: renameByName[field] ?? field }));
}

function cellOf(panel, row, { field, title }) {
  const config = configOf(panel, title), value = row[field];
  const cell = element('td');
  if (typeof value !== 'number') {
    cell.append(config.links ? element('a', {}, value ?? '') : value ?? '');
    return cell;
  }
  const mapped = config.mappings?.find(({ type }) => type === 'value')?.options[value];
  cell.className = mapped ? '' : 'number';
  cell.append(mapped ? mapped.text : format(value, config.unit, config.decimals));
  if (mapped) cell.style.color = colourOf(mapped.color);
  return cell;
}

function drawTable(panel, body) {
  const columns = columnsOf(panel), rows = merged(panel);
  const order = panel.options.sortBy?.[0];
  const by = columns.find(({ title }) => title === order?.displayName)?.field;
  if (by) rows.sort((a, b) => (order.desc ? -1 : 1) * ((a[by] ?? 0) - (b[by] ?? 0)));
  const isNumber = (column) => rows.some((row) => typeof row[column.field] === 'number');
  body.append(element('table', { className: 'data' },
    element('tr', {}, ...columns.map((c) => element('th', { className: isNumber(c) ? 'number' : '' }, c.title))),
    ...rows.map((row) => element('tr', {}, ...columns.map((column) => cellOf(panel, row, column))))));
}
