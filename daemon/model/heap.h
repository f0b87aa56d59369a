// SPDX-License-Identifier: Apache-2.0
// The kinds of blocks that the runtime distinguishes.
#pragma once

namespace memprofd {

// The heap in which a block was allocated or, for deallocations, died.
enum class Heap { kMinor = 0, kMajor = 1 };
inline constexpr int kHeaps = 2;

// Gc.Memprof.allocation_source, and what the runtime does not see: malloc and its like.
enum class Source { kNormal = 0, kMarshal = 1, kCustom = 2, kMalloc = 3 };
inline constexpr int kSources = 4;
inline constexpr int kMemprofSources = 3;
inline constexpr const char* kSourceWords[kSources] = {"normal", "marshal", "custom", "malloc"};

// The memory for which a block is counted. What a custom block holds outside of the heap, as a
// Bigarray does, is in neither OCaml heap, whichever the runtime reports for it. The native heap
// overlaps with the others: custom blocks hold much of it, and some is the OCaml heap itself. So it
// cannot be added to any other.
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
