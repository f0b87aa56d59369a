// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_census.h"

#include <fmt/core.h>

#include "daemon/snapshot/heap_lists.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::Status compare(std::string_view what, const BlockCount& found, const BlockCount& reported) {
  if (found == reported) return absl::OkStatus();
  return bad_heap(fmt::format("its {} are {} blocks of {} words, the runtime counts {} of {}", what,
                              found.blocks, found.words, reported.blocks, reported.words));
}

}  // namespace

BlockCount HeapCensus::major(BlockState state) const {
  BlockCount sum;
  for (const RegionKind kind : {RegionKind::kChunk, RegionKind::kPool, RegionKind::kLarge}) {
    sum.add(count(kind, state));
  }
  return sum;
}

// OCaml 5 counts a block until it is swept, and a large one with its head.
absl::Status HeapCensus::check(const HeapMap& map) const {
  const RuntimeSums& sums = map.sums;
  if (!map.colours.domains) {
    std::uint64_t words = 0;
    for (const auto& count : counts_[static_cast<int>(RegionKind::kChunk)]) words += count.words;
    if (words == sums.heap_words) return absl::OkStatus();
    return bad_heap(
        fmt::format("its chunks have {} words, the runtime counts {}", words, sums.heap_words));
  }
  BlockCount pools = count(RegionKind::kPool, BlockState::kUsed);
  pools.add(count(RegionKind::kPool, BlockState::kDead));
  BlockCount large = count(RegionKind::kLarge, BlockState::kUsed);
  large.add(count(RegionKind::kLarge, BlockState::kDead));
  large.words += large.blocks * kLargeHeadWords;
  RETURN_IF_ERROR(compare("slots", pools, {sums.pool_blocks, sums.pool_block_words}));
  return compare("large blocks", large, {sums.large_blocks, sums.large_words});
}

}  // namespace memprofd
