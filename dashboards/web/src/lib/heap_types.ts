// SPDX-License-Identifier: Apache-2.0
// Describes how much of a heap has source types.
import type { HeapTypes } from "./api";
import { count, share } from "./format";

const MOST_NAMES = 8;

const NONE = "No .cmt or .cmi file of its modules was found, so blocks are shown by shape; memprofd --snapshot.cmt PATH adds a place to search.";

const some = (names: readonly string[]): string =>
  names.slice(0, MOST_NAMES).join(", ") + (names.length > MOST_NAMES ? ` and ${count(names.length - MOST_NAMES)} more` : "");
const buildText = ({ other_builds: others, unverified }: HeapTypes): string =>
  (others.length > 0 ? `Ignored, files of another build: ${some(others)}. ` : "") +
  (unverified ? "It is unknown whether the files are of the program's build. " : "");

export function typesText(types?: HeapTypes): string {
  if (!types) return NONE;
  const builds = buildText(types);
  if (types.modules === 0) return builds || NONE;
  const { modules, modules_without_files: without, disagreed } = types;
  const size = (part?: { bytes: string | number }): number => Number(part?.bytes ?? 0);
  return `${share(size(types.typed), size(types.reachable))} of the reachable memory has a source type, from files of ` +
    `${count(modules)} module${modules === 1 ? "" : "s"}${without > 0 ? `; ${count(without)} have none` : ""}. ` +
    (Number(disagreed) > 0 ? `${count(Number(disagreed))} blocks did not match their type, or had two: the files may be of another build. ` : "") +
    builds +
    (types.out_of_time ? "Some files took too long to read." : "");
}
