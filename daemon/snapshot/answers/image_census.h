// SPDX-License-Identifier: Apache-2.0
// Counts the contents of a heap by class of block, by size, and by reachability.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct CensusRow {
  std::string name;
  BlockCount reachable;
  BlockCount garbage;  // unreachable, not found by the collector yet
  BlockCount dead;     // found by the collector, not swept yet
  // Native memory that the blocks hold; not part of any other number.
  std::uint64_t outside_reachable_bytes = 0;
  std::uint64_t outside_garbage_bytes = 0;

  BlockCount all() const {
    BlockCount sum = reachable;
    sum.add(garbage);
    sum.add(dead);
    return sum;
  }
};

// Free blocks and slots of a range of sizes.
struct FreeRow {
  std::uint64_t most_words = 0;  // upper limit of the size, including the header
  BlockCount count;              // excludes blocks counted in the previous row
};

// Reachable memory whose source type is known.
struct TypedCount {
  BlockCount typed;
  BlockCount reachable;
  TypingResult found;
};

struct ImageCensus {
  CensusRow total;
  BlockCount young;  // part of all blocks that is in minor heaps
  BlockCount free;
  std::uint64_t largest_free_words = 0;
  std::vector<FreeRow> free_sizes;  // by powers of two, without empty rows

  // Largest first, except sizes, which are in ascending order.
  std::vector<CensusRow> by_tag;    // "block", "block, tag 3", "string"
  std::vector<CensusRow> by_class;  // "block(4)", "array", "closure Server.handle"
  std::vector<CensusRow> by_size;   // "3 words", "17 to 32 words", headers included

  // The share of free memory outside of its largest block; 0 without free memory.
  double fragmentation() const;

  TypedCount types;
};

TypedCount count_typed(const HeapImage& image, const ShortestPaths& paths);

ImageCensus count_image(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
