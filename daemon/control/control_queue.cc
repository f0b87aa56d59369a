// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/control_queue.h"

#include "absl/strings/str_cat.h"

namespace memprofd {

absl::Status ControlQueue::closed() { return absl::AbortedError("memprofd is stopping"); }

absl::Status ControlQueue::late(std::chrono::milliseconds patience) {
  return absl::DeadlineExceededError(
      absl::StrCat("memprofd has not done this within ", patience.count() / 1000,
                   " s and may still do it: check `memprofctl targets`, then ask again"));
}

bool ControlQueue::post(std::function<void()> request) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    requests_.push_back(std::move(request));
  }
  changed_.notify_all();
  return true;
}

bool ControlQueue::waiting() {
  std::lock_guard lock(mutex_);
  return !requests_.empty();
}

void ControlQueue::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void ControlQueue::close() {
  Requests dropped;
  {
    std::lock_guard lock(mutex_);
    closed_ = woken_ = true;
    dropped.swap(requests_);
  }
  changed_.notify_all();
}

ControlQueue::Requests ControlQueue::wait_until(std::chrono::steady_clock::time_point time) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, time, [this] { return woken_ || !requests_.empty(); });
  woken_ = false;
  return std::exchange(requests_, {});
}

}  // namespace memprofd
