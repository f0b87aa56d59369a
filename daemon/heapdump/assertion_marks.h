// SPDX-License-Identifier: Apache-2.0
// Reads the assertions of a copy from the registry of its published values.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/heap_assertion.h"

namespace memprofd {

// As AssertionMark, with words of the program.
struct FoundMark {
  std::uint32_t assertion = 0;
  std::uint64_t value = 0;
  AssertionMark::Until until = AssertionMark::Until::kNow;
  std::uint64_t other = 0;
};

struct FoundAssertions {
  std::vector<HeapAssertion> assertions;
  std::vector<FoundMark> marks;  // of blocks, at most kMaxAssertionMarks
};

// Maximum number of reads of a snapshot's marks, of at most 4 KiB each: enough for as many marks as
// are checked, and for as many names and domains as there may be. Later marks are missing.
inline constexpr std::uint64_t kMaxAssertionReads = 1'000'000;

// registry: address of struct memprof_values; 0: none. now_ns: CLOCK_MONOTONIC of the copy. Total.
FoundAssertions read_assertions(const MemoryReader& memory, std::uint64_t registry,
                                std::uint64_t now_ns);

}  // namespace memprofd
