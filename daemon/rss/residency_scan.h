// SPDX-License-Identifier: Apache-2.0
// Finds how much of sampled native blocks is resident, and which blocks are gone although their end
// was not reported: nothing is mapped there, or glibc's malloc lists the memory as free. Reads from
// outside, like RssReport.
#pragma once

#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/target_memory.h"
#include "daemon/model/native_block.h"

namespace memprofd {

// Reads all blocks, in any order. Returns the errors of account_rss().
absl::StatusOr<ResidencyScan> scan_residency(int pid, const TargetMemory& memory,
                                             std::vector<NativeBlock> blocks,
                                             const std::stop_token& stop = {});

}  // namespace memprofd
