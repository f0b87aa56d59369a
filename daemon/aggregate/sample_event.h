// SPDX-License-Identifier: Apache-2.0
// An accepted record with the known facts about its block.
#pragma once

#include <cstdint>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/heap.h"

namespace memprofd {

struct SampleEvent {
  // The record as the agent sent it, except that promotions and deallocations have the block's
  // n_samples, 0 if it is not followed. An event of the native heap has the same form: its source
  // is Source::kMalloc, its kind one of the major heap.
  memprof_record record{};
  ClassId alloc_class;              // the unknown class if the block is not followed
  std::uint8_t bytes_short = 0;     // native blocks: size_words in bytes minus the exact size
  std::uint64_t alloc_time_ns = 0;  // CLOCK_MONOTONIC; 0: the block is not followed

  bool of_c() const {
    return MEMPROF_ORIGIN_SOURCE(record.origin) == static_cast<std::uint32_t>(Source::kMalloc);
  }
};
static_assert(sizeof(SampleEvent) == 48);  // the event log keeps many

}  // namespace memprofd
