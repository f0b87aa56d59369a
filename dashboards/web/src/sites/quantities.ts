// SPDX-License-Identifier: Apache-2.0
// Parses sizes and durations: "64", "1.5 KiB", "200 ms", "5m".
const SIZES: Record<string, number> = { "": 1, b: 1, k: 1024, kb: 1024, kib: 1024, m: 2 ** 20, mb: 2 ** 20,
  mib: 2 ** 20, g: 2 ** 30, gb: 2 ** 30, gib: 2 ** 30 };
const DURATIONS: Record<string, number> = { "": 1, ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, m: 60,
  min: 60, h: 3600, d: 86400 };

function parse(text: string, units: Record<string, number>): number | null {
  const match = /^\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)\s*$/i.exec(text);
  const unit = match && units[match[2].toLowerCase()];
  return match && unit !== undefined && unit !== null ? Number(match[1]) * unit : null;
}

// Both return null for invalid text.
export const parseSize = (text: string): number | null => parse(text, SIZES);
export const parseDuration = (text: string): number | null => parse(text, DURATIONS);
