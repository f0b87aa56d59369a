// SPDX-License-Identifier: Apache-2.0
// Records a live target: from its event log through a TraceRecording to an output. It only reads
// the log, so it delays no other thread, and events that it misses are counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/history/event_log.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/trace/recording.h"

namespace memprofd {

struct RecorderOptions {
  std::uint64_t start_time_ticks = 0;  // of the requested process; 0: any process with the pid
  int version = 0;                     // 2 or 3; 0: 2 for runtimes that have one domain only
  double max_seconds = 0;              // 0: no limit
  RecordingOptions recording;          // its version is not used
  std::chrono::milliseconds flush_interval{1000};
};

// Not thread-safe.
class TraceRecorder {
 public:
  // Records events from its return on. source and output must outlive the recorder. kNotFound: not
  // a target; kFailedPrecondition: the target has ended, or is not the requested process.
  static absl::StatusOr<std::unique_ptr<TraceRecorder>> start(SnapshotSource& source, int pid,
                                                              TraceOutput& output,
                                                              const RecorderOptions& options);

  // Records new events, or waits a tenth of a second for some. Returns false if the recording has
  // ended, by a limit or with the target; then the output is complete.
  bool step();
  // Records all events up to now and ends.
  void finish(const std::string& why);

  const RecordingStats& stats() const { return recording_.stats(); }
  const std::string& ended() const { return recording_.ended(); }

 private:
  TraceRecorder(SnapshotSource& source, const ProfileSnapshot& target, EventReader reader,
                TraceOutput& output, const RecorderOptions& options);
  bool end_with_target();

  SnapshotSource& source_;
  const int pid_;
  EventReader reader_;
  TraceRecording recording_;
  const RecorderOptions options_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> flushed_;
};

}  // namespace memprofd
