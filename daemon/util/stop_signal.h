// SPDX-License-Identifier: Apache-2.0
// Lets long waits of request handlers end when the program does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace memprofd {

class StopSignal {
 public:
  // False when stop() has been called.
  bool wait(std::chrono::nanoseconds time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, time, [this] { return stopped_; });
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;  // guarded by mutex_
};

}  // namespace memprofd
