// SPDX-License-Identifier: Apache-2.0
// Searches a profile by regular expression.
import type { Profile } from "./profile";

export interface SearchResult {
  matches: Uint8Array | null;  // by function; null: empty search or invalid expression
  isValid: boolean;
  bytes: number;  // of all callstacks with a match
  functions: number;
}

export const NOTHING: SearchResult = { matches: null, isValid: true, bytes: 0, functions: 0 };

export function find(profile: Profile, measure: string, search: string): SearchResult {
  if (search === "") return NOTHING;
  let regexp: RegExp;
  try {
    // A search in lower case ignores case.
    regexp = new RegExp(search, search === search.toLowerCase() ? "iu" : "u");
  } catch {
    return { ...NOTHING, isValid: false };
  }
  const matches = profile.matching(regexp);
  return { matches, isValid: true, bytes: profile.matchedBytes(measure, matches),
    functions: matches.reduce((sum, one) => sum + one, 0) };
}
