// SPDX-License-Identifier: Apache-2.0
// Formats lifetime estimates: quantiles, their limits, and the share still alive.
import type { Lifetime } from "../lib/api";
import * as format from "../lib/format";

export const isKnown = (lifetime: Lifetime | undefined): lifetime is Lifetime => (lifetime?.watched_seconds ?? 0) > 0;

// Median in seconds; if it is not reached, its lower bound.
export const medianOf = (lifetime: Lifetime | undefined): number =>
  lifetime?.p50_seconds ?? lifetime?.watched_seconds ?? 0;

const textOf = (seconds: number | undefined, watched: number): string =>
  seconds === undefined ? `> ${format.duration(watched)}` : format.duration(seconds);

// "41.6 s, 12 % alive"; "> 1.0 min, 86 % alive".
export const medianText = (lifetime: Lifetime | undefined): string => isKnown(lifetime)
  ? `${textOf(lifetime.p50_seconds, lifetime.watched_seconds)}, ${format.share(lifetime.alive_ratio, 1)} alive` : "not known";

// "p50 41.6 s (32.8 s to 46.3 s), p90 > 1.0 min (from 46.3 s), ...".
export function quantilesText(lifetime: Lifetime): string {
  const quantiles = [["p50", lifetime.p50_seconds, lifetime.p50_limits], ["p90", lifetime.p90_seconds, lifetime.p90_limits],
    ["p99", lifetime.p99_seconds, lifetime.p99_limits]] as const;
  return quantiles.map(([name, seconds, limits]) => {
    const [lower, upper] = [limits?.lower_seconds ?? 0, limits?.upper_seconds];
    const between = upper !== undefined ? ` (${format.duration(lower)} to ${format.duration(upper)})`
      : lower > 0 ? ` (from ${format.duration(lower)})` : "";
    return `${name} ${textOf(seconds, lifetime.watched_seconds)}${between}`;
  }).join(", ");
}
