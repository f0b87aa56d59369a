// SPDX-License-Identifier: Apache-2.0
// The kinds of blocks that the runtime tells apart.
#pragma once

namespace memprofd {

// Which heap a block was allocated in, or, for deallocations, died in.
enum class Heap { kMinor = 0, kMajor = 1 };
inline constexpr int kHeaps = 2;

// Gc.Memprof.allocation_source, and what the runtime does not see: malloc and its like.
enum class Source { kNormal = 0, kMarshal = 1, kCustom = 2, kMalloc = 3 };
inline constexpr int kSources = 4;
inline constexpr int kMemprofSources = 3;
inline constexpr const char* kSourceWords[kSources] = {"normal", "marshal", "custom", "malloc"};

// Where the memory is that a block is counted for. What a custom block holds outside, as a Bigarray
// does, is in neither heap, whichever the runtime names with it. C's memory is seen from the other
// side: much of it is what custom blocks hold, and some is the OCaml heap itself, so that it adds
// up with no other place.
enum class Place { kMinor = 0, kMajor = 1, kExternal = 2, kC = 3 };
inline constexpr int kPlaces = 4;
inline constexpr const char* kPlaceWords[kPlaces] = {"minor", "major", "external", "c"};

constexpr Place place_of(Heap heap, Source source) {
  if (source == Source::kCustom) return Place::kExternal;
  if (source == Source::kMalloc) return Place::kC;
  return heap == Heap::kMajor ? Place::kMajor : Place::kMinor;
}

constexpr bool in_heap(Place place) { return place == Place::kMinor || place == Place::kMajor; }

}  // namespace memprofd
