// SPDX-License-Identifier: Apache-2.0
// The source of targets' snapshots, for code that only passes snapshots on. Code that reads a
// snapshot includes snapshot.h.
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

  // Makes ranges of all running targets able to begin at this moment. Does nothing if such a moment
  // is near.
  virtual void mark_moment() {}

  // Fresh snapshots of all targets, including ended ones, ordered by pid.
  virtual std::vector<ProfileSnapshotPtr> snapshots() = 0;
  // kNotFound: the pid is not a target.
  virtual absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) = 0;
};

}  // namespace memprofd
