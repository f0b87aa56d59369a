// SPDX-License-Identifier: Apache-2.0
// The runtime's list of sampled blocks, found through the roots of Memprof: the user data that the
// agent assigned to each block is its number, and is in the block's entry (MemprofEntryLayout).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_snapshot_abi.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

struct MemprofEntry {
  std::uint64_t sample_id = 0;
  std::uint64_t block = 0;  // value that points to it; 0: it has died
  std::uint32_t samples = 0;
};

// roots: those of Memprof. Ignores roots that are not numbers (a callstack whose callback is
// pending). Returns the errors of the memory.
absl::StatusOr<std::vector<MemprofEntry>> read_memprof_entries(const MemoryReader& memory,
                                                               const RuntimeAbi& abi,
                                                               std::vector<memprof_root> roots);

}  // namespace memprofd
