// SPDX-License-Identifier: Apache-2.0
// Parts of the resident memory over time as areas.
import type { MemoryParts } from "../lib/api";
import { pile, type Area, type Moment, type Stack } from "../chart/stack";

type Field = Exclude<keyof MemoryParts, "resident_bytes" | "swapped_bytes">;
// From the bottom up, each with a fixed colour.
const PARTS: readonly (readonly [field: Field, slot: number, label: string, description: string])[] = [
  ["heap_used_bytes", 0, "OCaml heap: blocks", "including garbage that is not swept yet"],
  ["heap_free_bytes", 8, "OCaml heap: free", "free space by the runtime's own count; untouched parts of it are shown as native heap"],
  ["minor_heap_bytes", 1, "OCaml minor heaps", "of all domains"],
  ["other_anonymous_bytes", 5, "native heap, stacks, data", "malloc, Bigarrays, stacks, static data, the runtime's tables"],
  ["file_bytes", 3, "code and mapped files", "pages shared with other programs count in full"],
  ["shared_memory_bytes", 4, "shared memory", "without a file on a disk"],
];
export const descriptionOf = (area: Area): string => PARTS.find(([field]) => field === area.key)?.[3] ?? "";

// Keeps compactions, which may return memory; the main chart shows collections.
const quiet = (moment: Moment): Moment => ({ ...moment, minor: 0, major: 0, anew: false });

// Omits moments without memory data, and parts that are always zero.
export function memoryStack(all: Stack): Stack {
  const at = all.moments.flatMap((moment, i) => (moment.memory ? [i] : []));
  const moments = at.map((i) => quiet(all.moments[i]!));
  const areas = PARTS.map(([field, slot, label]): Area => {
    const values = moments.map(({ memory }) => Number(memory![field])), none = values.map(() => 0);
    return { key: field, label, site: null, slot, values, errors: none, lowers: values, uppers: values, top: [] };
  }).filter(({ values }) => values.some((value) => value > 0));
  pile(areas, moments.length);
  return { by: all.by, times: at.map((i) => all.times[i]!), moments, areas };
}
