// SPDX-License-Identifier: Apache-2.0
// A trace file as a target that has ended: with the counts, the history and the callstacks that the
// daemon would have, so that every query about a live target works for a file.
// A file contains no threads (all blocks have AllocClass::kAnyThread), no libraries, and not the
// heap in which a block died. A block dies in the major heap if it was promoted or allocated there,
// otherwise in the minor heap. Memory outside of both (ctf::Source::kExternal) is Source::kCustom
// of the minor heap, where its custom block is allocated.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/trace/ctf/ctf_reader.h"

namespace memprofd {

struct Replay {
  ProfileSnapshotPtr snapshot;  // never null; its clock is the trace's
  ctf::ReadSummary summary;     // contents and losses
  int version = 0;              // of the format
};

// Reads any trace, including damaged ones. path "-" is the standard input. Uses as much memory as a
// target in the daemon, with room for more callstacks, classes and blocks; the snapshot's drops
// count the excess.
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
