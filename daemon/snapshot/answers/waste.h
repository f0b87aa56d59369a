// SPDX-License-Identifier: Apache-2.0
// Wasted memory: memory that a better data layout would save, as far as shapes reveal it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

enum class WastePattern : std::uint8_t {
  kSparseTables,   // Hashtbl: most buckets are empty
  kEmptyTables,    // Hashtbl: all buckets are empty
  kFilledArrays,   // most fields hold the same block
  kBoxedFloats,    // float with a block of its own
  kBoxedIntegers,  // int32, int64, nativeint
  kListsOfOne,     // requires types that identify lists
  kClosureChains,  // closures that hold a closure of the same function, repeatedly
  kEqualStrings,   // requires contents or fingerprints
  kLargeBuffers,   // Buffer.t with a known and small used part
};
inline constexpr int kWastePatterns = 9;

struct WasteRoot {
  std::uint32_t root_name = 0;  // in the image: the shortest path to the blocks begins there
  std::uint64_t words_to_win = 0;
};

struct WasteRow {
  WastePattern pattern = WastePattern::kSparseTables;
  std::uint64_t blocks = 0;  // tables, arrays, numbers, lists, closures
  std::uint64_t words = 0;   // size of the blocks, including headers
  std::uint64_t words_to_win = 0;
  std::vector<WasteRoot> places;  // largest first
};

struct WasteText {
  const char* what;    // "sparse hash tables"
  const char* remedy;  // "create them smaller, or Hashtbl.reset instead of clear"
};
WasteText describe(WastePattern pattern);

// Examines reachable blocks. Rows with the largest saving first, without empty ones.
std::vector<WasteRow> find_waste(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
