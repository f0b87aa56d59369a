// SPDX-License-Identifier: Apache-2.0
// One accepted record with what is known of its block.
#pragma once

#include <cstdint>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/model/alloc_class.h"

namespace memprofd {

struct SampleEvent {
  // As the agent sent it, but for promotions and deallocations n_samples is that
  // of the block, 0 when it is not followed.
  memprof_record record{};
  ClassId alloc_class;              // the unknown one when the block is not followed
  std::uint64_t alloc_time_ns = 0;  // CLOCK_MONOTONIC; 0: the block is not followed
};

}  // namespace memprofd
