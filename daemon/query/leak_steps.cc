// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leak_steps.h"

#include <algorithm>

namespace memprofd {
namespace {

constexpr std::size_t kFewestBlocks = 3;
// Buffers, tables and dynamic arrays grow by a factor of 1.5 or 2; sizes are known within 3 %.
constexpr double kLeastFactor = 1.4;
// The death of the previous block may not have been detected yet, and small blocks may be live too.
constexpr double kMostLive = 1.75;  // in units of the last block

}  // namespace

std::optional<StepGrowth> growth_in_steps(const std::vector<LargeBlock>& blocks, double live_words,
                                          std::uint64_t begin_ns, std::uint64_t end_ns) {
  if (blocks.size() < kFewestBlocks) return std::nullopt;
  const LargeBlock &first = blocks.front(), &last = blocks.back();
  if (live_words < last.words * 0.9 || live_words > last.words * kMostLive) return std::nullopt;
  if (last.born_ns < begin_ns + (end_ns - begin_ns) / 2) return std::nullopt;
  double chance = 1;
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].words < kLeastFactor * blocks[i - 1].words) return std::nullopt;
    chance /= static_cast<double>(i + 1);
  }
  return StepGrowth{.begin_words = first.words,
                    .end_words = last.words,
                    .seconds = static_cast<double>(last.born_ns - first.born_ns) / 1e9,
                    .confidence = 1 - chance};
}

}  // namespace memprofd
