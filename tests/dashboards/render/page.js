// SPDX-License-Identifier: Apache-2.0
// Lays a dashboard out as Grafana does: 24 columns, rows of 30 pixels, gaps of 8 pixels.
'use strict';

const DRAW = { timeseries: drawTimeSeries, heatmap: drawHeatmap, stat: drawStat, bargauge: drawBars, table: drawTable };

function place(node, { x, y, w, h }) {
  node.style.gridArea = `${y + 1} / ${x + 1} / ${y + h + 1} / ${x + w + 1}`;
  return node;
}

function header({ title, variables }) {
  const chips = Object.entries(variables).map(([name, value]) =>
    element('span', { className: 'chip' }, element('b', {}, name), value));
  return element('header', {}, element('h1', {}, title), element('div', { className: 'chips' }, ...chips));
}

function show(data) {
  document.body.className = data.theme;
  const grid = element('main');
  document.body.append(header(data), grid, element('footer', {}, data.note));
  for (const panel of data.panels) {
    if (panel.type === 'row') {
      grid.append(place(element('h2', {}, panel.title), panel.gridPos));
      continue;
    }
    const body = element('div', { className: 'body' });
    grid.append(place(element('section', { className: panel.type }, element('h3', {}, panel.title), body), panel.gridPos));
    DRAW[panel.type](panel, body, data.time);
  }
  document.body.dataset.done = 'yes';
}

show(JSON.parse(document.getElementById('data').textContent));
