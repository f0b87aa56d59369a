// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/model/callstack.h"

namespace memprofd {

// Which callstacks have allocated sampled blocks.
struct SampleSites {
  static constexpr std::uint32_t kUnknown = ~0u;
  std::vector<std::shared_ptr<const Callstack>> callstacks;
  std::vector<std::uint32_t> of;  // for each number that was asked for; or kUnknown
};

}  // namespace memprofd
