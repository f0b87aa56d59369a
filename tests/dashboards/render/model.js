// SPDX-License-Identifier: Apache-2.0
// Configuration of a panel's series: names, colours, overrides.
'use strict';

const PALETTE = ['#7EB26D', '#EAB839', '#6ED0E0', '#EF843C', '#E24D42', '#1F78C1', '#BA43A9', '#705DA0', '#508642',
                 '#CCA300', '#447EBC', '#C15C17', '#890F02', '#0A437C', '#6D1F62', '#584477', '#B7DBAB', '#F4D598',
                 '#70DBED', '#F9BA8F', '#F29191', '#82B5D8', '#E5A8E2', '#AEA2E0', '#629E51', '#E5AC0E'];
const NAMED_COLOURS = { green: '#73BF69', yellow: '#FADE2A', red: '#F2495C', orange: '#FF9830', purple: '#B877D9',
                        'semi-dark-blue': '#3274D9', text: 'var(--text)' };

const colourOf = (name) => NAMED_COLOURS[name] ?? name;

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, attributes);
  node.append(...children);
  return node;
}

function seriesName(target, labels) {
  const text = (target.legendFormat ?? '').replace(/{{\s*(\w+)\s*}}/g, (_, label) => labels[label] ?? '').trim();
  return text || JSON.stringify(labels);
}

function matches(override, name) {
  const { id, options } = override.matcher;
  if (id === 'byName') return options === name;
  if (id === 'byRegexp') return new RegExp(`^(?:${options.replace(/^\/|\/$/g, '')})$`).test(name);
  throw new Error(`matcher ${id}`);
}

// The field configuration of a series with its overrides; an override of `custom.x` sets custom[x].
function configOf(panel, name) {
  const config = structuredClone(panel.fieldConfig.defaults);
  config.custom ??= {};
  for (const override of panel.fieldConfig.overrides ?? []) {
    if (!matches(override, name)) continue;
    for (const { id, value } of override.properties) {
      if (id.startsWith('custom.')) config.custom[id.slice('custom.'.length)] = value;
      else config[id] = value;
    }
  }
  return config;
}

// All series of a panel: {name, labels, values: [[time, value]], config}, coloured in order.
function seriesOf(panel) {
  const result = [];
  panel.targets.forEach((target, index) => {
    for (const { metric, values, value } of panel.results[index]) {
      const name = seriesName(target, metric);
      result.push({ name, labels: metric, config: configOf(panel, name),
                    values: (values ?? [value]).map(([time, text]) => [time, Number(text)]) });
    }
  });
  result.forEach((series, index) => {
    const fixed = series.config.color?.mode === 'fixed' ? series.config.color.fixedColor : null;
    series.colour = fixed ? colourOf(fixed) : PALETTE[index % PALETTE.length];
  });
  return result;
}
