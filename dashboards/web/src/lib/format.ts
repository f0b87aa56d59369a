// SPDX-License-Identifier: Apache-2.0
// Formats numbers in the way memprofctl prints them (daemon/util/units.cc).

type Unit = readonly [name: string, scale: number];

const BYTES: readonly Unit[] = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30],
  ["TiB", 2 ** 40], ["PiB", 2 ** 50]];
const DURATIONS: readonly Unit[] = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1], ["min", 60],
  ["h", 3600], ["d", 86400]];

// The largest unit in which value is at least 1; otherwise the smallest unit.
function unitFor(units: readonly Unit[], value: number): Unit {
  for (let i = units.length - 1; i > 0; --i) {
    if (value >= units[i][1] * 0.9995) return units[i];
  }
  return units[0];
}

// Decimals for three significant digits.
const decimalsOf = (value: number) => (value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);

export function bytes(value: number): string {
  if (value < 0) return `−${bytes(-value)}`;
  const [name, scale] = unitFor(BYTES, value);
  return `${(value / scale).toFixed(scale === 1 ? 0 : decimalsOf(value / scale))} ${name}`;
}

// "12.3 MiB ± 0.4" with as many digits as the error justifies, at most three decimals. A smaller error is rounded up
// to one in the last digit.
export function estimate(value: number, error: number): string {
  if (!(error > 0)) return bytes(value);
  const [name, scale] = unitFor(BYTES, Math.max(Math.abs(value), error));
  const digits = Math.min(3, Math.max(0, -Math.floor(Math.log10(error / scale))));
  const decimals = scale === 1 ? 0 : digits;
  const number = (value / scale).toFixed(decimals).replace("-", "−");
  return `${number} ${name} ± ${Math.max(error / scale, 10 ** -decimals).toFixed(decimals)}`;
}

// A difference: "+12.3 MiB ± 0.4".
export function change(value: number, error: number): string {
  return `${value > 0 ? "+" : ""}${estimate(value, error)}`;
}

// "95 % interval: 8.1 MiB to 17.4 MiB"
export const interval = (lower: number, upper: number, shown: (value: number) => string = bytes): string =>
  `95 % interval: ${shown(lower)} to ${shown(upper)}`;

export function duration(seconds: number): string {
  if (!(seconds > 0)) return "0 s";
  const [name, scale] = unitFor(DURATIONS, seconds);
  const value = seconds / scale;
  return `${value.toFixed(value >= 99.95 ? 0 : 1)} ${name}`;
}

export const count = (value: number): string =>
  String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");

// "1,234 ± 56" blocks; errors below one become one.
export const countEstimate = (value: number, error: number): string =>
  error > 0 ? `${count(value)} ± ${count(Math.max(1, error))}` : count(value);

export function share(part: number, whole: number): string {
  if (!(whole > 0)) return "-";
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return `${percent.toFixed(percent > 0 && percent < 9.95 ? 1 : 0)} %`;
}

// "37 % ± 3"; the whole includes the part.
export function shareEstimate(part: number, partError: number, whole: number, wholeError: number): string {
  if (!(whole > 0)) return "-";
  const of = part / whole, rest = Math.max(0, wholeError ** 2 - partError ** 2);
  const error = (100 / whole) * Math.hypot((1 - of) * partError, of * Math.sqrt(rest));
  if (!(error > 0.005)) return share(part, whole);
  const decimals = Math.min(2, Math.max(0, -Math.floor(Math.log10(error))));
  return `${(100 * of).toFixed(decimals)} % ± ${error.toFixed(decimals)}`;
}

export function rate(perWord: number): string {
  if (!(perWord > 0)) return "unknown";
  return `${perWord.toExponential().replace(/e([+-])(\d)$/, "e$10$2")}/word ` +
    `(1 sample per ${bytes(8 / perWord)})`;
}

const utc = (unixMs: number) => new Date(unixMs).toISOString().replace("T", " ").slice(0, 19);

// "2026-01-31 12:00:00 – 12:05:00 UTC (5.0 min)".
export function timeRange(beginMs: number, endMs: number): string {
  if (!Number.isFinite(beginMs) || !Number.isFinite(endMs)) return "";
  if (Math.max(Math.abs(beginMs), Math.abs(endMs)) > 8.64e15) return "";  // no such Date
  const [begin, end] = [utc(beginMs), utc(endMs)];
  const sameDay = begin.slice(0, 10) === end.slice(0, 10);
  return `${begin} – ${sameDay ? end.slice(11) : end} UTC (${duration((endMs - beginMs) / 1000)})`;
}
