// SPDX-License-Identifier: Apache-2.0
// Ctrl-C ends a stream, not the program: received data is kept.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd::ctl {

// Calls stop when SIGINT or SIGTERM comes, and once more, stop_now, when another one does. Lives as
// long as the work; made before the program has other threads, which inherit the blocked signals.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  // Not more than once.
  void on_signal(
      std::function<void()> stop, std::function<void()> stop_now = [] {});

 private:
  std::thread thread_;
};

// Waits that Ctrl-C ends; then the results so far are shown. Thread-safe.
class Waiting {
 public:
  // False: interrupted, then or before.
  bool wait_until(std::chrono::steady_clock::time_point time);
  void interrupt();

 private:
  Mutex mutex_;
  Condition interrupted_;
  bool is_interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace memprofd::ctl
