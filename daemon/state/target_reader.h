// SPDX-License-Identifier: Apache-2.0
// Reads the file of a TargetWriter, as the last snapshot that was written to it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot_source.h"

namespace memprofd {

struct StoredTarget {
  ProfileSnapshotPtr snapshot;  // with a StoredSymbolizer and no log of events; its history ended
  std::string boot_id;          // the boot to which pids and times since boot belong
};

// Reads the last intact moment of the file. Every count is exact; variances and lifetimes of
// classes may differ by rounding. kFailedPrecondition: not such a file, or another version.
// kDataLoss: it contains no intact moment.
absl::StatusOr<StoredTarget> read_target(const std::string& path);

}  // namespace memprofd
