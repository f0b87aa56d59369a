// SPDX-License-Identifier: Apache-2.0
// Passes a few pieces at a time from one thread to another.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class PiecePipe {
 public:
  static constexpr std::size_t kMax = 16;

  // patience: maximum time for which a piece waits for room.
  explicit PiecePipe(std::chrono::milliseconds patience) : patience_(patience) {}

  // kAborted if the pipe is closed; kDeadlineExceeded if there was no room in time.
  absl::Status push(std::string piece) {
    const auto until = std::chrono::steady_clock::now() + patience_;
    const MutexLock lock(mutex_);
    while (!closed_ && pieces_.size() >= kMax && changed_.wait_until(mutex_, until)) {
    }
    if (closed_) return absl::AbortedError("no one waits for it any longer");
    if (pieces_.size() >= kMax) {
      return absl::DeadlineExceededError(
          "the client accepts the snapshot too slowly; write it to a faster disk");
    }
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    return absl::OkStatus();
  }

  // nullopt if no piece arrived in that time.
  std::optional<std::string> pop(std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    const MutexLock lock(mutex_);
    while (pieces_.empty() && changed_.wait_until(mutex_, until)) {
    }
    if (pieces_.empty()) return std::nullopt;
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }

  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  bool closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }

 private:
  const std::chrono::milliseconds patience_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<std::string> pieces_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace memprofd
