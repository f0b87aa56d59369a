// SPDX-License-Identifier: Apache-2.0
// What a TargetWriter has kept, as the snapshot that it was told of last.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot_source.h"

namespace memprofd {

struct StoredTarget {
  TargetSnapshotPtr snapshot;  // with a StoredSymbolizer and no log of events; its history ended
  std::string boot_id;         // when the machine ran on which pids and times since boot are told
};

// The last whole moment of the file. Every count is what it was; of variances and lifetimes of
// classes, rounding may differ. kFailedPrecondition: it is no such file, or of another version.
// kDataLoss: there is no whole moment in it.
absl::StatusOr<StoredTarget> read_target(const std::string& path);

}  // namespace memprofd
