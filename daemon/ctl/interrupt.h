// SPDX-License-Identifier: Apache-2.0
// Ctrl-C ends a stream, not the program: received data is kept.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd::ctl {

// Calls stop on the first SIGINT, SIGTERM or SIGHUP, and stop_now on the second. Must outlive the
// work, and must be created before the program has other threads, which inherit the blocked
// signals.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  // Called at most once.
  void on_signal(
      std::function<void()> stop, std::function<void()> stop_now = [] {});

 private:
  std::thread thread_;
};

// A wait that Ctrl-C ends, so that the results so far are shown. Thread-safe.
class Waiting {
 public:
  // Returns false if it was interrupted during the wait or before.
  bool wait_until(std::chrono::steady_clock::time_point time);
  void interrupt();

 private:
  Mutex mutex_;
  Condition interrupted_;
  bool is_interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace memprofd::ctl
