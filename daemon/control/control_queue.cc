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
    const MutexLock lock(mutex_);
    if (closed_) return false;
    requests_.push_back(std::move(request));
  }
  changed_.notify_all();
  return true;
}

bool ControlQueue::waiting() {
  const MutexLock lock(mutex_);
  return !requests_.empty();
}

void ControlQueue::wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void ControlQueue::close() {
  Requests dropped;
  {
    const MutexLock lock(mutex_);
    closed_ = woken_ = true;
    dropped.swap(requests_);
  }
  changed_.notify_all();
}

ControlQueue::Requests ControlQueue::wait_until(std::chrono::steady_clock::time_point time) {
  const MutexLock lock(mutex_);
  while (!woken_ && requests_.empty() && changed_.wait_until(mutex_, time)) {
  }
  woken_ = false;
  return std::exchange(requests_, {});
}

}  // namespace memprofd
