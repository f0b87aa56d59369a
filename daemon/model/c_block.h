// SPDX-License-Identifier: Apache-2.0
// Sampled blocks of C's memory that live: where they are, and what a look at the program's pages
// has found of them.
#pragma once

#include <cstdint>
#include <vector>

namespace memprofd {

struct CBlockPlace {
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // that were asked for
};

struct CBlockFound {
  std::uint64_t number = 0;
  float share = 0;    // of its bytes that is resident, 0 to 1
  bool gone = false;  // nothing of the program is there, or malloc has it back
};

// Findings about all blocks that lived when the reading began.
using CBlockLook = std::vector<CBlockFound>;

}  // namespace memprofd
