// SPDX-License-Identifier: Apache-2.0
// What whoever asked for an attach waits for: exactly one answer, kAborted at the end if
// none was given before.
#pragma once

#include <future>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/control/control_queue.h"
#include "daemon/history/snapshot.h"

namespace memprofd {

class AttachAnswer {
 public:
  using Result = absl::StatusOr<TargetInfo>;

  AttachAnswer() = default;  // nobody waits
  explicit AttachAnswer(std::promise<Result> promise) : promise_(std::move(promise)) {}
  AttachAnswer(AttachAnswer&& other) noexcept
      : promise_(std::exchange(other.promise_, std::nullopt)) {}
  AttachAnswer& operator=(AttachAnswer&& other) noexcept {
    promise_.swap(other.promise_);
    return *this;
  }
  ~AttachAnswer() { give(ControlQueue::closed()); }

  bool awaited() const { return promise_.has_value(); }
  // Does nothing when nobody waits, or not any more.
  void give(Result result) {
    if (auto promise = std::exchange(promise_, std::nullopt)) {
      promise->set_value(std::move(result));
    }
  }

 private:
  std::optional<std::promise<Result>> promise_;
};

}  // namespace memprofd
