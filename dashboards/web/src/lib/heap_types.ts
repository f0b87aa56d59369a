// SPDX-License-Identifier: Apache-2.0
// How much of a heap has types of its program's source, in words.
import type { HeapTypes, Why } from "./api";
import { count, share } from "./format";

const NONE = "No .cmt or .cmi file of its modules was found, so blocks are told by their shapes; memprofd --snapshot.cmt PATH names a place to look.";

export function typesText(types?: HeapTypes): string {
  if (!types || types.modules === 0) return NONE;
  const { modules, modules_without_files: without, disagreed } = types;
  const size = (part?: { bytes: string | number }): number => Number(part?.bytes ?? 0);
  return `${share(size(types.typed), size(types.reachable))} of what is reachable has a type of the source, by files of ` +
    `${count(modules)} module${modules === 1 ? "" : "s"}${without > 0 ? `; ${count(without)} have none` : ""}. ` +
    (Number(disagreed) > 0 ? `${count(Number(disagreed))} times a block was not as its type says, or of two types: the files may be of another build. ` : "") +
    (types.out_of_time ? "Some files were not waited for." : "");
}

export const typesOfWhy = ({ types }: Why): HeapTypes | undefined =>
  types && { ...types, typed: types.reachable, reachable: types.all_reachable, out_of_time: false };
