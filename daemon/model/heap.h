// SPDX-License-Identifier: Apache-2.0
// The kinds of blocks that the runtime tells apart.
#pragma once

namespace memprofd {

// Which heap a block was allocated in, or, for deallocations, died in.
enum class Heap { kMinor = 0, kMajor = 1 };
inline constexpr int kHeaps = 2;

// Gc.Memprof.allocation_source.
enum class Source { kNormal = 0, kMarshal = 1, kCustom = 2 };
inline constexpr int kSources = 3;

// Where the memory is that a block is counted for. What a custom block holds outside, as a Bigarray
// does, is in neither heap, whichever the runtime names with it.
enum class Place { kMinor = 0, kMajor = 1, kExternal = 2 };
inline constexpr int kPlaces = 3;
inline constexpr const char* kPlaceWords[kPlaces] = {"minor", "major", "external"};

constexpr Place place_of(Heap heap, Source source) {
  if (source == Source::kCustom) return Place::kExternal;
  return heap == Heap::kMajor ? Place::kMajor : Place::kMinor;
}

}  // namespace memprofd
