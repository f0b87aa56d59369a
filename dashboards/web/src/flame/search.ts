// SPDX-License-Identifier: Apache-2.0
// Searching a profile by regular expression.
import type { Profile } from "./profile";

export interface Found {
  matches: Uint8Array | null;  // by function; null: nothing is searched, or not a regular expression
  isValid: boolean;
  bytes: number;  // of all callstacks that hold a match
  functions: number;
}

export const NOTHING: Found = { matches: null, isValid: true, bytes: 0, functions: 0 };

export function find(profile: Profile, measure: string, search: string): Found {
  if (search === "") return NOTHING;
  let regexp: RegExp;
  try {
    // Small letters only: either case.
    regexp = new RegExp(search, search === search.toLowerCase() ? "iu" : "u");
  } catch {
    return { ...NOTHING, isValid: false };
  }
  const matches = profile.matching(regexp);
  return { matches, isValid: true, bytes: profile.matchedBytes(measure, matches),
    functions: matches.reduce((sum, one) => sum + one, 0) };
}
