// SPDX-License-Identifier: Apache-2.0
// Time series panels, drawn with uPlot, and heat maps.
'use strict';

const rgba = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(',')},${alpha})`;
const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

// Values of each series at the common times; null where one has none.
function table(series, times) {
  return series.map(({ values }) => {
    const at = new Map(values);
    return times.map((time) => {
      const value = at.get(time);
      return value === undefined || Number.isNaN(value) || !Number.isFinite(value) ? null : value;
    });
  });
}

const BINARY_UNITS = new Set(['bytes', 'binBps']);
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);

const isStacked = (series) => series.config.custom.stacking?.mode === 'normal';

// Adds to each stacked series the ones before it.
function stack(series, rows) {
  let below = null;
  return rows.map((row, index) => {
    if (!isStacked(series[index])) return row;
    const base = below;
    below = row.map((value, i) => (value ?? 0) + (base ? base[i] : 0));
    return below;
  });
}

function lineOf(series) {
  const custom = series.config.custom;
  const opacity = (custom.fillOpacity ?? 0) / 100;
  return {
    label: series.name,
    scale: custom.axisPlacement === 'right' ? 'right' : 'y',
    width: custom.lineWidth ?? 1,
    stroke: series.colour,
    dash: custom.lineStyle?.fill === 'dash' ? custom.lineStyle.dash : undefined,
    fill: opacity > 0 && !isStacked(series) && !custom.fillBelowTo ? rgba(series.colour, opacity) : undefined,
    points: { show: false },
    spanGaps: false,
  };
}

// Bands between a stacked series and the one below it, and between the limits of an estimate.
function bandsOf(series) {
  const bands = [];
  let below = -1;
  series.forEach(({ name, colour, config: { custom } }, index) => {
    const fill = rgba(colour, (custom.fillOpacity ?? 0) / 100);
    if (custom.fillBelowTo) {
      const lower = series.findIndex((other) => other.name === custom.fillBelowTo);
      if (lower < 0) throw new Error(`${name}: no series ${custom.fillBelowTo}`);
      bands.push({ series: [index + 1, lower + 1], fill });
    }
    if (!isStacked(series[index])) return;
    if (below >= 0) bands.push({ series: [index + 1, below + 1], fill });
    below = index;
  });
  return bands;
}

function axes(series, rightUnit, panel) {
  const common = { stroke: css('--dim'), font: '11px sans-serif', grid: { stroke: css('--grid'), width: 1 },
                   ticks: { stroke: css('--grid'), width: 1, size: 4 } };
  const decimals = panel.fieldConfig.defaults.decimals;
  const valueAxis = (scale, side, unit) => ({ ...common, scale, side, size: 74,
    ...(BINARY_UNITS.has(unit) ? { incrs: POWERS_OF_TWO } : {}),
    grid: { ...common.grid, show: side === 3 },
    values: (_, splits) => splits.map((value) => (value === null ? '' : format(value, unit, decimals))) });
  const list = [{ ...common, space: 60, incrs: [60, 120, 300, 600, 900, 1800, 3600, 7200, 21600],
                  values: (_, splits) => splits.map((time) => new Date(time * 1000).toISOString().slice(11, 16)) },
                valueAxis('y', 3, panel.fieldConfig.defaults.unit)];
  if (rightUnit !== undefined) list.push(valueAxis('right', 1, rightUnit));
  return list;
}

function scaleOf(panel, series) {
  const { min, max, custom = {} } = panel.fieldConfig.defaults;
  if (custom.scaleDistribution?.type === 'log') return { distr: 3, log: custom.scaleDistribution.log };
  return { range: (_, low, high) => {
    const top = Math.max(max ?? high, custom.axisSoftMax ?? -Infinity);
    const bottom = min ?? Math.min(low, custom.axisSoftMin ?? Infinity);
    return top > bottom ? [bottom, max === undefined && !series.every((s) => s.values.every(([, v]) => v === 0)) ? top * 1.05 : top]
                        : [bottom, bottom + 1];
  } };
}

function legend(panel, series) {
  const last = (values) => values.at(-1)?.[1];
  const most = (values) => values.map(([, value]) => value).filter(Number.isFinite)
    .reduce((a, b) => (a === undefined ? b : Math.max(a, b)), undefined);
  const shown = series.filter((s) => !s.config.custom.hideFrom?.legend);
  const rows = shown.map((s) => element('tr', {},
    element('td', {}, Object.assign(element('i'), { style: `background:${s.colour}` }), s.name),
    element('td', { className: 'number' }, format(last(s.values), s.config.unit, panel.fieldConfig.defaults.decimals)),
    element('td', { className: 'number' }, format(most(s.values), s.config.unit, panel.fieldConfig.defaults.decimals))));
  return element('table', { className: 'legend' },
    element('tr', {}, element('th', {}, 'Name'), element('th', { className: 'number' }, 'Last'),
            element('th', { className: 'number' }, 'Max')), ...rows);
}

function drawTimeSeries(panel, body, time) {
  const series = seriesOf(panel);
  const names = legend(panel, series), right = panel.options.legend.placement === 'right';
  body.append(names);
  if (right) body.classList.add('beside');
  if (right) names.style.width = `${panel.options.legend.width}px`;
  const width = right ? body.clientWidth - panel.options.legend.width - 24 : body.clientWidth - 16;
  const height = body.clientHeight - (right ? 0 : names.offsetHeight) - 4;
  const times = [...new Set(series.flatMap((s) => s.values.map(([t]) => t)))].sort((a, b) => a - b);
  const rows = stack(series, table(series, times));
  const onTheRight = series.find((s) => s.config.custom.axisPlacement === 'right');
  const options = {
    width, height, series: [{}, ...series.map(lineOf)], bands: bandsOf(series),
    axes: axes(series, onTheRight?.config.unit, panel), legend: { show: false }, cursor: { show: false },
    scales: { x: { time: true, range: () => [time.start, time.end] }, y: scaleOf(panel, series),
              right: { range: (_, low, high) => [0, high * 1.1] } },
  };
  // No band covers the area below the lowest stacked series, so the series fills it itself.
  const lowest = series.findIndex(isStacked);
  if (lowest >= 0) {
    const opacity = series[lowest].config.custom.fillOpacity / 100;
    options.series[lowest + 1].fill = rgba(series[lowest].colour, opacity);
  }
  const plot = element('div');
  body.prepend(plot);
  new uPlot(options, [times, ...rows], plot);
}

// ---------------------------------------------------------------- heat maps

// Counts within each bucket: the difference between its cumulative count and the previous one.
function bucketsOf(panel) {
  const series = seriesOf(panel).map((s) => ({ le: Number(s.labels.le.replace('+Inf', 'Infinity')), at: new Map(s.values) }))
    .sort((a, b) => a.le - b.le);
  return series.map(({ le, at }, index) => ({ le, at: new Map([...at].map(([time, value]) => [time,
    Math.max(0, value - (index > 0 ? series[index - 1].at.get(time) ?? 0 : 0))])) }));
}

// Approximates the Turbo colour map; x is from 0 to 1.
function turbo(x) {
  const polynomial = (c) => Math.max(0, Math.min(255, c.reduceRight((sum, k) => sum * x + k, 0)));
  return `rgb(${[[34.61, 1172.33, -10793.56, 33300.12, -38394.49, 14825.05],
                 [23.31, 557.33, 1225.33, -3574.96, 1073.77, 707.56],
                 [27.2, 3211.1, -15327.97, 27814, -22569.18, 6838.66]].map(polynomial).map(Math.round).join(',')})`;
}

function drawHeatmap(panel, body, time) {
  const buckets = bucketsOf(panel), unit = panel.options.yAxis.unit;
  const used = buckets.map(({ at }) => [...at.values()].some((v) => v > 1e-9));
  const first = Math.max(0, used.indexOf(true) - 1), last = Math.min(buckets.length - 1, used.lastIndexOf(true) + 1);
  const rows = buckets.slice(first, last + 1);
  const width = body.clientWidth - 16, height = body.clientHeight, left = 74, bottom = 24;
  const canvas = element('canvas', { width: width * devicePixelRatio, height: height * devicePixelRatio });
  canvas.style.width = `${width}px`;
  const draw = canvas.getContext('2d');
  draw.scale(devicePixelRatio, devicePixelRatio);
  const most = Math.max(...rows.flatMap(({ at }) => [...at.values()]));
  const cell = (height - bottom - 4) / rows.length;
  const x = (t) => left + ((t - time.start) / (time.end - time.start)) * (width - left - 8);
  draw.font = '11px sans-serif';
  draw.textAlign = 'right';
  rows.forEach(({ le, at }, index) => {
    const y = height - bottom - (index + 1) * cell;
    for (const [t, value] of at) {
      if (value <= (panel.options.filterValues?.le ?? 0)) continue;
      draw.fillStyle = turbo((value / most) ** panel.options.color.exponent);
      draw.fillRect(x(t - time.step), y + 0.5, Math.max(1, x(t) - x(t - time.step) + 0.5), cell - 1);
    }
    draw.fillStyle = css('--dim');
    if (index % Math.ceil(14 / cell) === 0) draw.fillText(format(le, unit), left - 6, y + 4);
  });
  draw.textAlign = 'center';
  const wanted = 6, step = Math.ceil((time.end - time.start) / wanted / 60) * 60;
  for (let t = Math.ceil(time.start / step) * step; t <= time.end; t += step) {
    draw.fillText(new Date(t * 1000).toISOString().slice(11, 16), x(t), height - 6);
  }
  body.append(canvas);
}
