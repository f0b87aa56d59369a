// SPDX-License-Identifier: Apache-2.0
// Live sampled blocks of the native heap: their addresses and the state of their pages.
#pragma once

#include <cstdint>
#include <vector>

namespace memprofd {

struct NativeBlock {
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // size that the program requested
};

struct BlockResidency {
  std::uint64_t number = 0;
  float share = 0;    // resident share of its bytes, 0 to 1
  bool gone = false;  // no mapping is there, or malloc has the block back
};

// Results for all blocks that were live when the scan began.
using ResidencyScan = std::vector<BlockResidency>;

}  // namespace memprofd
