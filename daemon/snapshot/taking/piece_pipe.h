// SPDX-License-Identifier: Apache-2.0
// What one thread makes and another one takes, a few pieces at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace memprofd {

class PiecePipe {
 public:
  static constexpr std::size_t kMost = 16;

  // patience: how long a piece may wait for room.
  explicit PiecePipe(std::chrono::milliseconds patience) : patience_(patience) {}

  // kAborted once it is closed; kDeadlineExceeded when nobody has made room in time.
  absl::Status push(std::string piece) {
    std::unique_lock lock(mutex_);
    const bool in_time =
        changed_.wait_for(lock, patience_, [this] { return closed_ || pieces_.size() < kMost; });
    if (closed_) return absl::AbortedError("no one waits for it any longer");
    if (!in_time) {
      return absl::DeadlineExceededError(
          "the client accepts the snapshot too slowly; write it to a faster disk");
    }
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    return absl::OkStatus();
  }

  // Nothing when none has come in that time.
  std::optional<std::string> pop(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, time, [this] { return !pieces_.empty(); })) return std::nullopt;
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;  // guarded by mutex_
  bool closed_ = false;             // guarded by mutex_
};

}  // namespace memprofd
