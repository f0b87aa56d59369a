// SPDX-License-Identifier: Apache-2.0
// The kinds of blocks that the runtime distinguishes.
#pragma once

#include <cstdint>

namespace memprofd {

// A word of OCaml, on 64-bit machines.
inline constexpr std::uint64_t kWordBytes = 8;

// The heap in which a block was allocated. For a deallocation: the heap in which it died.
enum class Heap { kMinor = 0, kMajor = 1 };
inline constexpr int kHeaps = 2;

// Gc.Memprof.allocation_source, plus malloc, whose blocks the runtime does not see.
enum class Source { kNormal = 0, kMarshal = 1, kCustom = 2, kMalloc = 3 };
inline constexpr int kSources = 4;
inline constexpr int kMemprofSources = 3;
inline constexpr const char* kSourceWords[kSources] = {"normal", "marshal", "custom", "malloc"};

// The kind of memory in which a block counts. Memory that a custom block holds outside of the heap,
// such as that of a Bigarray, is external whichever OCaml heap the runtime reports. The native heap
// overlaps with the others: custom blocks hold much of it, and part of it is the OCaml heap itself.
// So its numbers cannot be added to any other.
enum class HeapKind { kMinor = 0, kMajor = 1, kExternal = 2, kC = 3 };
inline constexpr int kHeapKinds = 4;
inline constexpr const char* kHeapKindWords[kHeapKinds] = {"minor", "major", "external", "c"};

constexpr HeapKind heap_kind_of(Heap heap, Source source) {
  if (source == Source::kCustom) return HeapKind::kExternal;
  if (source == Source::kMalloc) return HeapKind::kC;
  return heap == Heap::kMajor ? HeapKind::kMajor : HeapKind::kMinor;
}

constexpr bool in_heap(HeapKind heap_kind) {
  return heap_kind == HeapKind::kMinor || heap_kind == HeapKind::kMajor;
}

}  // namespace memprofd
