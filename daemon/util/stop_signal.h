// SPDX-License-Identifier: Apache-2.0
// Interrupts long waits.
#pragma once

#include <chrono>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

class StopSignal {
 public:
  // Returns false if stop() has been called.
  bool wait(std::chrono::nanoseconds time) {
    const MutexLock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + time;
    while (!stopped_ && changed_.wait_until(mutex_, until)) {
    }
    return !stopped_;
  }
  void stop() {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace memprofd
