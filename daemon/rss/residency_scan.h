// SPDX-License-Identifier: Apache-2.0
// Finds how much of sampled native blocks is resident, and which of them are gone although their
// end was not reported: nothing is mapped there, or glibc's malloc has the memory free. Read from
// outside, as RssReport is.
#pragma once

#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/target_memory.h"
#include "daemon/model/native_block.h"

namespace memprofd {

// Reads all of the blocks, in any order. Errors as of account_rss().
absl::StatusOr<ResidencyScan> scan_residency(int pid, const TargetMemory& memory,
                                             std::vector<NativeBlock> blocks,
                                             const std::stop_token& stop = {});

}  // namespace memprofd
