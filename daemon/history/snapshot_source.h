// SPDX-License-Identifier: Apache-2.0
// Where snapshots of targets come from. For those who pass them on: who reads one includes
// snapshot.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace memprofd {

struct ProfileSnapshot;
using ProfileSnapshotPtr = std::shared_ptr<const ProfileSnapshot>;

// A source of snapshots: a daemon or a file. Calls may come from any thread.
class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;

  // Makes this moment one at which ranges of all running targets can begin. Where there are many
  // such moments already it does nothing: then one of them is near.
  virtual void mark_moment() {}

  // Fresh snapshots of all targets, those that ended included, ordered by pid.
  virtual std::vector<ProfileSnapshotPtr> snapshots() = 0;
  // kNotFound when the pid is not a target.
  virtual absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) = 0;
};

}  // namespace memprofd
