// SPDX-License-Identifier: Apache-2.0
// A heap snapshot on its way to an HTTP client. It is taken on a thread of its own, and handed on
// while it is made.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/heapdump/piece_pipe.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

class HeapDumpStream {
 public:
  using Summary = absl::StatusOr<::memprof::v1::SnapshotSummary>;

  // Returns when the first piece is there, or an error. control and stop must outlive it. done:
  // called with the outcome, on the stream's thread.
  static absl::StatusOr<std::shared_ptr<HeapDumpStream>> begin(
      ControlService& control, StopSignal& stop, const ::memprof::v1::TakeSnapshotRequest& request,
      std::function<void(const Summary&)> done);
  // Gives the snapshot up, if it has not ended.
  ~HeapDumpStream();
  HeapDumpStream(const HeapDumpStream&) = delete;
  HeapDumpStream& operator=(const HeapDumpStream&) = delete;

  // Waits for the next piece. Empty after the last one; nullopt if the snapshot failed.
  std::optional<std::string> next();

 private:
  // Time for which a piece waits for a client that accepts none.
  static constexpr std::chrono::seconds kPatience{5};

  HeapDumpStream() = default;
  void take(ControlService& control, StopSignal& stop,
            const ::memprof::v1::TakeSnapshotRequest& request);

  PiecePipe pipe_{kPatience};
  std::optional<std::string> first_;
  Summary summary_{absl::UnknownError("not yet")};
  std::atomic<bool> ended_ = false;  // summary_ is there
  std::thread thread_;               // ends first
};

}  // namespace memprofd
