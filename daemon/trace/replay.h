// SPDX-License-Identifier: Apache-2.0
// A trace file as a target whose life is over: the counts, the history and the
// callstacks that the daemon would have had, so that every question about a live
// target can be asked about a file.
//
// What a file does not say: threads (all blocks have AllocClass::kAnyThread),
// libraries, and in which heap a block died. A block dies in the major heap when
// it was promoted or allocated there, else in the minor heap. Memory outside of
// both (ctf::Source::kExternal) is Source::kCustom of the minor heap, where the
// block that stands for it is born.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot.h"
#include "daemon/trace/ctf/ctf_reader.h"

namespace memprofd {

struct Replay {
  ProfileSnapshotPtr snapshot;  // never null; its clock is the trace's
  ctf::ReadSummary summary;     // contents and losses
  int version = 0;              // of the format
};

// Reads any trace, damaged ones too. path "-" is the standard input. Memory: that
// of a daemon's target, with room for more callstacks, classes and blocks; what
// exceeds it is counted in the snapshot's drops.
absl::StatusOr<Replay> replay_trace(const std::string& path);

// The only target of a file, requested by its pid or by pid 0.
class TraceFileSource final : public SnapshotSource {
 public:
  explicit TraceFileSource(Replay replay) : replay_(std::move(replay)) {}

  std::vector<ProfileSnapshotPtr> snapshots() override { return {replay_.snapshot}; }
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override;

  const Replay& replay() const { return replay_; }

 private:
  const Replay replay_;
};

}  // namespace memprofd
