// SPDX-License-Identifier: Apache-2.0
// Wasted memory: memory that a better data layout would not need, as far as shapes show.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

enum class WastePattern : std::uint8_t {
  kSparseTables,   // of Hashtbl: most buckets are empty
  kEmptyTables,    // all are
  kFilledArrays,   // most fields hold one and the same block
  kBoxedFloats,    // a number with a block of its own
  kBoxedIntegers,  // int32, int64, nativeint
  kListsOfOne,     // if types identify lists
  kClosureChains,  // a function's closure that holds one of the same function, and so on
  kEqualStrings,   // where their contents or fingerprints are known
  kLargeBuffers,   // of the standard library, where it is known how much of them is in use
};
inline constexpr int kWastePatterns = 9;

struct WasteRoot {
  std::uint32_t root_name = 0;  // of the image: the shortest way to the blocks begins there
  std::uint64_t words_to_win = 0;
};

struct WasteRow {
  WastePattern pattern = WastePattern::kSparseTables;
  std::uint64_t blocks = 0;  // tables, arrays, numbers, lists, closures
  std::uint64_t words = 0;   // that these take, headers included
  std::uint64_t words_to_win = 0;
  std::vector<WasteRoot> places;  // the largest first
};

struct WasteText {
  const char* what;    // "sparse hash tables"
  const char* remedy;  // "create them smaller, or Hashtbl.reset instead of clear"
};
WasteText describe(WastePattern pattern);

// Looks at reachable blocks. The rows with the most to win first, without empty ones.
std::vector<WasteRow> find_waste(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
