// SPDX-License-Identifier: Apache-2.0
// Leaks of a few large blocks, each of which replaces a smaller one: a Buffer that is never
// emptied, a table or an array that is made larger again and again. Computes only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace memprofd {

// A block that is sampled for certain, or nearly.
struct LargeBlock {
  std::uint64_t born_ns = 0;  // the end of the window in which it was allocated
  double words = 0;
};

// Growth of a site's large blocks.
struct StepGrowth {
  double begin_words = 0, end_words = 0;  // of the first block and the last
  double seconds = 0;                     // between their births
  double confidence = 0;                  // that they are not in this order by chance, 0 to 1
};

// blocks: all large ones that a site allocated in the range, in the order of their births;
// live_words: what of them is live at the end. Nothing where they are no leak: fewer than three,
// one that is not 1.4 times as large as the one before, another one than the last alive, or none in
// the later half of the range.
std::optional<StepGrowth> growth_in_steps(const std::vector<LargeBlock>& blocks, double live_words,
                                          std::uint64_t begin_ns, std::uint64_t end_ns);

}  // namespace memprofd
