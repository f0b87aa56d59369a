// SPDX-License-Identifier: Apache-2.0
// Conditions of the view's filter in words, and their removal.
import * as format from "../lib/format";
import type { View } from "../lib/state";

type Filter = View["filter"];

export interface Condition {
  words: string;
  without: Filter;
}

const LISTS: Record<string, string> = { require: "callstack has", forbid: "callstack has no", hide: "hidden",
  threads: "thread", domains: "domain" };
const SINGLES: Record<string, (value: string) => string> = {
  pattern: (value) => `site matches ${value}`,
  min_size_bytes: (value) => `size ≥ ${format.bytes(Number(value))}`,
  max_size_bytes: (value) => `size ≤ ${format.bytes(Number(value))}`,
  min_lifetime_seconds: (value) => `lived ≥ ${format.duration(Number(value))}`,
  max_lifetime_seconds: (value) => `lived ≤ ${format.duration(Number(value))}`,
  heap: (value) => (value === "external" ? "outside of the heap" : value === "c" ? "native heap" : `${value} heap`),
  frames: (value) => `sites by ${value} frames`,
  source: (value) => `from ${value}`,
  fate: (value) => (value === "dead" ? "dead" : "alive"),
  allocated_in_range: () => "allocated in the range",
};

const without = (filter: Filter, name: string): Filter =>
  Object.fromEntries(Object.entries(filter).filter(([other]) => other !== name));

// Sets a field; "" removes it.
export const withField = (filter: Filter, name: string, value: string): Filter =>
  value === "" ? without(filter, name) : { ...filter, [name]: value };

export function conditionsOf(filter: Filter): Condition[] {
  const out: Condition[] = [];
  for (const [name, value] of Object.entries(filter)) {
    if (Array.isArray(value)) {
      for (const one of value) {
        const left = value.filter((other) => other !== one);
        out.push({ words: `${LISTS[name] ?? name} ${one}`,
          without: left.length > 0 ? { ...filter, [name]: left } : without(filter, name) });
      }
    } else if (value !== "") {
      out.push({ words: SINGLES[name]?.(value) ?? `${name} ${value}`, without: without(filter, name) });
    }
  }
  return out;
}
