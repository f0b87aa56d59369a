// SPDX-License-Identifier: Apache-2.0
// Keeps the history of what targets say about themselves, and of values of their modules that
// somebody has chosen: a thread of its own, which reads all of
// them once a second, from outside. It only looks on: functions are evaluated and lines are kept
// for who asks or scrapes. What it takes of a processor is bounded: the more there is to read, the
// less often it does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/history/value_sample.h"
#include "daemon/util/stop_signal.h"
#include "daemon/values/value_program.h"

namespace memprofd {

// A target that says something about itself, or of which values are kept.
struct TellingTarget {
  std::shared_ptr<ValueProgram> program;
  std::function<void(ValueSample)> keep;  // its times are of CLOCK_MONOTONIC
};

class ValueKeeper {
 public:
  static constexpr std::chrono::milliseconds kInterval{1000};
  // A share of the time of one processor.
  static constexpr int kMostPercent = 1;

  // list: those that there are now; called by the thread.
  explicit ValueKeeper(std::function<std::vector<TellingTarget>()> list);
  ~ValueKeeper() { stop(); }
  ValueKeeper(const ValueKeeper&) = delete;
  ValueKeeper& operator=(const ValueKeeper&) = delete;
  void stop();

  // From one look to the next, of which the last one has taken so much CPU time.
  static std::chrono::nanoseconds rest_after(std::chrono::nanoseconds cpu_time);

 private:
  void run();
  void look();

  const std::function<std::vector<TellingTarget>()> list_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
