// SPDX-License-Identifier: Apache-2.0
// Published values by name: numbers over time, and text at one moment.
import type { Reported, ValueHistory, ValueSeries } from "../lib/api";
import { bytes, count, duration } from "../lib/format";

type Quantity = "HITS" | "SECONDS" | "STOPS" | "RUNNING" | "NUMBER" | "SIZE" | "BUCKETS" | "EMPTY_BUCKETS" | "LONGEST_CHAIN" | "BYTES";
export type Kind = "point" | "timer" | "phase" | "value" | "tag";

// Values per step, NaN if unknown.
export interface Numbers { lasts: number[]; lows: number[]; highs: number[] }

export interface Observation {
  id: string; // kind and name
  kind: Kind;
  name: string; // includes labels
  unit: string;
  numbers: Map<Quantity, Numbers>;
  isKept?: boolean; // a module value that memprofd records on request
  now?: Reported; // the present value, if control is allowed
}

// One line of an observation in a plot.
export interface Line {
  id: string;
  observation: Observation;
  label: string; // "per second"
  title: string; // "requests{route=/a}, per second"
  isRate: boolean;
  shown(value: number): string;
}

const numbersOf = (list: readonly (number | string)[]): number[] => list.map(Number);
const kindOf = (text: string): Kind => text.replace("REPORTED_KIND_", "").toLowerCase() as Kind;

export function nameOf({ name, labels }: { name: string; labels: readonly { key: string; value: string }[] }): string {
  return labels.length === 0 ? name : `${name}{${labels.map(({ key, value }) => `${key}=${value}`).join(",")}}`;
}

const idOf = (kind: Kind, name: string): string => `${kind} ${name}`;

// In the order of the program. The present values may contain more than the history, which has only numbers.
export function observationsOf(history: ValueHistory, now: readonly Reported[], kept: readonly string[]): Observation[] {
  const all = new Map<string, Observation>();
  const one = (kind: Kind, name: string, unit: string): Observation => {
    const id = idOf(kind, name), found = all.get(id) ?? { id, kind, name, unit, numbers: new Map() };
    all.set(id, found);
    return found;
  };
  for (const series of history.series) {
    one(kindOf(series.kind), nameOf(series), series.unit).numbers.set(quantityOf(series), {
      lasts: numbersOf(series.lasts), lows: numbersOf(series.lows), highs: numbersOf(series.highs) });
  }
  // Requests have only a name.
  for (const reported of now.filter(({ kind }) => kind !== "REPORTED_KIND_REQUEST")) one(kindOf(reported.kind), nameOf(reported), reported.unit).now = reported;
  for (const name of kept) one("value", name, "").isKept = true;
  return [...all.values()];
}

const quantityOf = ({ quantity }: ValueSeries): Quantity => quantity.replace("VALUE_QUANTITY_", "") as Quantity;

// ---------------------------------------------------------------- lines

const number = (value: number): string =>
  (Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)))).replace(/^-/, "−");
const busy = (value: number): string => (value > 0 && value < 0.0005 ? "<0.1 %" : `${value < 0.9995 ? (100 * value).toFixed(1) : count(100 * value)} %`);

interface Drawn { quantity: Quantity; label: string; isRate?: boolean; shown?(value: number): string }
const perSecond = (value: number): string => `${number(value)}/s`;
const DRAWN: Record<Kind, Drawn[]> = {
  point: [{ quantity: "HITS", label: "per second", isRate: true, shown: perSecond }],
  timer: [{ quantity: "SECONDS", label: "busy", isRate: true, shown: busy },
    { quantity: "STOPS", label: "per second", isRate: true, shown: perSecond }, { quantity: "RUNNING", label: "running" }],
  phase: [{ quantity: "RUNNING", label: "running" }, { quantity: "STOPS", label: "per second", isRate: true, shown: perSecond }],
  value: [{ quantity: "NUMBER", label: "value" }, { quantity: "SIZE", label: "size" }, { quantity: "LONGEST_CHAIN", label: "longest chain" }],
  tag: [{ quantity: "SIZE", label: "number" }, { quantity: "BYTES", label: "memory", shown: bytes }],
};

export function linesOf(observation: Observation): Line[] {
  return DRAWN[observation.kind].filter(({ quantity }) => observation.numbers.has(quantity)).map(({ quantity, label, isRate = false, shown }) => ({
    isRate, id: `${observation.id}\n${quantity}`, observation, label, title: `${observation.name}, ${label}`,
    shown: shown ?? ((value) => `${number(value)}${observation.unit === "" ? "" : ` ${observation.unit}`}`) }));
}

// Values of a line over time: levels, or changes per second since the previous time.
export function valuesOf(line: Line, times: readonly number[]): Numbers {
  const quantity = line.id.split("\n").at(-1) as Quantity;
  const found = line.observation.numbers.get(quantity) ?? { lasts: [], lows: [], highs: [] };
  if (!line.isRate) return found;
  const rates = found.lasts.map((last, i) => {
    const change = i === 0 ? NaN : last - found.lasts[i - 1]!;
    return change / (times[i]! - times[i - 1]!);
  });
  return { lasts: rates, lows: rates, highs: rates };
}

// ---------------------------------------------------------------- text

const known = (observation: Observation, quantity: Quantity, index: number): number | undefined => {
  const value = observation.numbers.get(quantity)?.lasts[index];
  return value === undefined || Number.isNaN(value) ? undefined : value;
};

// Text of an observation at a point of the history; "" if unknown.
export function textAt(observation: Observation, index: number): string {
  const at = (quantity: Quantity) => known(observation, quantity, index), unit = observation.unit === "" ? "" : ` ${observation.unit}`;
  const hits = at("HITS"), stops = at("STOPS"), size = at("SIZE"), value = at("NUMBER"), buckets = at("BUCKETS"), memory = at("BYTES");
  if (hits !== undefined) return number(hits) + unit;
  if (stops !== undefined) {
    const running = at("RUNNING") ?? 0;
    return `${count(stops)} times, ${duration(at("SECONDS") ?? 0)}${running > 0 ? `, ${count(running)} running` : ""}`;
  }
  if (value !== undefined) return number(value) + unit;
  if (size === undefined) return "";
  if (observation.kind === "tag") return `${count(size)} marked${memory === undefined ? "" : `, ${bytes(memory)}`}`;
  if (buckets === undefined) return `size ${count(size)}${unit}`;
  const empty = at("EMPTY_BUCKETS"), longest = at("LONGEST_CHAIN");
  return `${count(size)} in ${count(buckets)} buckets${empty === undefined ? "" : `, ${count(empty)} empty`}` +
    `${longest === undefined ? "" : `, longest chain ${count(longest)}`}`;
}
