// SPDX-License-Identifier: Apache-2.0
// Searchable names of a profile: functions, files and modules, ordered by the bytes below them.
import type { Profile } from "../flame/profile";
import * as format from "../lib/format";
import type { Suggestion } from "./completion";

export interface Word {
  text: string;
  lower: string;
  kind: "function" | "file" | "module";
  bytes: number;
}

// By group: bytes of all callstacks with a function of the group, each callstack once.
function bytesByGroup(profile: Profile, key: string, groupOf: (fn: number) => string): Map<string, number> {
  const ids = new Map<string, number>();
  const names: string[] = [];
  const group = Int32Array.from(profile.data.functions, (_, fn) => {
    const name = groupOf(fn);
    const id = ids.get(name) ?? names.length;
    if (id === names.length) names.push(name);
    ids.set(name, id);
    return id;
  });
  const total = profile.self[key].slice();
  for (let i = profile.size - 1; i > 0; --i) total[profile.parent[i]] += total[i];
  const sums = new Float64Array(names.length);
  for (let i = 1; i < profile.size; ++i) {
    const own = group[profile.fn[i]];
    // In direct recursion only the outermost frame of a group counts. Indirect recursion counts twice, which is good
    // enough for an order.
    if (profile.parent[i] === 0 || group[profile.fn[profile.parent[i]]] !== own) sums[own] += total[i];
  }
  return new Map(names.map((name, id) => [name, sums[id]]));
}

export function wordsOf(profile: Profile, key: string): Word[] {
  const words: Word[] = [];
  const add = (kind: Word["kind"], sums: Map<string, number>) => {
    for (const [text, bytes] of sums) {
      if (text !== "") words.push({ text, lower: text.toLowerCase(), kind, bytes });
    }
  };
  add("function", bytesByGroup(profile, key, (fn) => profile.name(fn)));
  add("module", bytesByGroup(profile, key, (fn) => profile.module(fn)));
  add("file", bytesByGroup(profile, key, (fn) => profile.file(fn)));
  return words.sort((a, b) => b.bytes - a.bytes);
}

// Quality of a match of a word, case ignored; 0: no match.
function fit(word: Word, typed: string): number {
  const at = word.lower.indexOf(typed);
  if (at < 0) return 0;
  if (at === 0) return word.lower.length === typed.length ? 5 : 4;
  const before = word.lower[at - 1];
  return /[^a-z0-9]/.test(before) ? 3 : 2;
}

// Matches letters in order with others between: "ohp" finds Order_http.parse.
function isSpread(word: Word, typed: string): boolean {
  let at = -1;
  for (const letter of typed) {
    at = word.lower.indexOf(letter, at + 1);
    if (at < 0) return false;
  }
  return true;
}

const MOST = 12;

// The best matches first, equal ones by bytes.
export function suggestionsFor(words: readonly Word[], text: string,
                               kinds: readonly Word["kind"][] = ["function", "file", "module"]): Suggestion[] {
  const typed = text.toLowerCase();
  const found = words.filter(({ kind }) => kinds.includes(kind))
    .map((word) => ({ word, rank: fit(word, typed) || (isSpread(word, typed) ? 1 : 0) }))
    .filter(({ rank }) => rank > 0);
  found.sort((a, b) => b.rank - a.rank);  // stable, so equal ranks stay ordered by bytes
  return found.slice(0, MOST).map(({ word }) =>
    ({ text: word.text, kind: word.kind, detail: word.bytes > 0 ? format.bytes(word.bytes) : "" }));
}
