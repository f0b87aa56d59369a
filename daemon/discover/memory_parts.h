// SPDX-License-Identifier: Apache-2.0
// The parts of a process's resident memory that are cheap to determine, from counters of the kernel
// and the runtime, without reading pages. rss_report.h has more detail, at a higher cost.
#pragma once

#include <cstdint>

#include "daemon/discover/gc_stats.h"
#include "daemon/discover/memory_status.h"

namespace memprofd {

// In bytes. All but the last add up to the resident memory.
struct MemoryParts {
  // Anonymous memory. Blocks and minor heaps were written to, so they are resident if anything is.
  // Free space of the heap may never have been touched: then heap_free is smaller, and the rest
  // larger.
  std::uint64_t heap_used = 0;        // includes garbage that is not swept yet
  std::uint64_t heap_free = 0;        // also 0 if the runtime's count is unknown
  std::uint64_t minor_heaps = 0;      // total of all domains
  std::uint64_t other_anonymous = 0;  // native heap, stacks, data; all of it if the heap is unknown
  std::uint64_t files = 0;
  std::uint64_t shared = 0;
  std::uint64_t swapped = 0;

  std::uint64_t resident() const {
    return heap_used + heap_free + minor_heaps + other_anonymous + files + shared;
  }
  friend bool operator==(const MemoryParts&, const MemoryParts&) = default;
};

MemoryParts memory_parts(const MemoryStatus& status, const GcStats& gc);

}  // namespace memprofd
