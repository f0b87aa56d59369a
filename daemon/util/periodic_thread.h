// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "daemon/util/stop_signal.h"

namespace memprofd {

// Does a job again and again on a thread of its own. Declare it as the last member of the job's
// object: it begins at once, and uses all others.
class PeriodicThread {
 public:
  struct Options {
    const char* name;                   // of the thread, at most 15 characters
    const char* what;                   // the job in messages: "to check rules"
    std::chrono::nanoseconds first{0};  // time until the first turn
  };
  // One turn; returns the time until the next one. A turn that throws is logged, and the next one
  // comes after the same time as before.
  using Job = std::function<std::chrono::nanoseconds()>;

  PeriodicThread(const Options& options, Job job);
  ~PeriodicThread() { stop(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Waits for the end of the turn. Can be repeated.
  void stop();
  // False once it is to stop; a long turn asks often. Any thread.
  bool is_running() { return stop_.wait({}); }

 private:
  void run(const Options& options);

  const Job job_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
