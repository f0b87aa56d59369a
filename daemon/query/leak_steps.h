// SPDX-License-Identifier: Apache-2.0
// Detects leaks of a few large blocks, each of which replaces a smaller one: a Buffer that is never
// cleared, a table or an array that is enlarged again and again. Has no side effects.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace memprofd {

// A block that is certain, or nearly certain, to be sampled.
struct LargeBlock {
  std::uint64_t born_ns = 0;  // end of the window in which it was allocated
  double words = 0;
};

// Growth of a site's large blocks.
struct StepGrowth {
  double begin_words = 0, end_words = 0;  // size of the first and of the last block
  double seconds = 0;                     // between their allocations
  double confidence = 0;  // probability, 0 to 1, that this order is not due to chance
};

// blocks: all large ones that a site allocated in the range, in the order of allocation.
// live_words: the part of them that is live at the end. Returns nullopt if they are no leak: fewer
// than three blocks, one that is not 1.4 times as large as the previous, one other than the last
// still live, or none allocated in the later half of the range.
std::optional<StepGrowth> growth_in_steps(const std::vector<LargeBlock>& blocks, double live_words,
                                          std::uint64_t begin_ns, std::uint64_t end_ns);

}  // namespace memprofd
