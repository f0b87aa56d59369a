// SPDX-License-Identifier: Apache-2.0
// Formats numbers with units, which have Grafana's ids.
'use strict';

const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti'];
const DECIMAL = ['', ' K', ' Mil', ' Bil'];

function significant(value, decimals) {
  if (decimals !== undefined) return value.toFixed(decimals);
  if (value === 0) return '0';
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(4, 2 - Math.floor(Math.log10(size))))
    .replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

function scaled(value, step, names, suffix, decimals) {
  let power = 0;
  while (Math.abs(value) >= step && power + 1 < names.length) {
    value /= step;
    ++power;
  }
  return `${significant(value, decimals)}${suffix(names[power])}`;
}

function seconds(value, decimals) {
  const size = Math.abs(value);
  if (size === 0) return '0 s';
  for (const [limit, factor, name] of [[1e-6, 1e9, 'ns'], [1e-3, 1e6, 'µs'], [1, 1e3, 'ms'], [60, 1, 's'],
                                       [3600, 1 / 60, 'min'], [Infinity, 1 / 3600, 'h']]) {
    if (size < limit) return `${significant(value * factor, decimals)} ${name}`;
  }
  return `${value}`;
}

function format(value, unit, decimals) {
  if (value === null || value === undefined || Number.isNaN(value)) return '';
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf';
  switch (unit) {
    case 'bytes': return scaled(value, 1024, BINARY, (p) => ` ${p}B`, decimals);
    case 'binBps': return scaled(value, 1024, BINARY, (p) => ` ${p}B/s`, decimals);
    case 'percentunit': return `${significant(value * 100, decimals ?? (Math.abs(value) < 0.1 ? 2 : 1))} %`;
    case 's': return seconds(value, decimals);
    case 'cps': return `${scaled(value, 1000, DECIMAL, (p) => p, decimals)} /s`;
    case 'sci': return value.toExponential(0);
    case 'short': return scaled(value, 1000, DECIMAL, (p) => p, decimals);
    default:
      if (unit?.startsWith('suffix:')) return significant(value, decimals) + unit.slice('suffix:'.length);
      return significant(value, decimals);
  }
}
