// SPDX-License-Identifier: Apache-2.0
// Keeps the history of published values, and of module values that a user has chosen. A thread of
// its own reads all of them once a second, from outside. It is no viewer: functions are evaluated
// and lines kept only for clients that ask or scrape. Its CPU use is limited, so it reads less
// often if there is more to read.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/history/value_sample.h"
#include "daemon/util/periodic_thread.h"
#include "daemon/values/value_program.h"

namespace memprofd {

// A target that publishes values, or whose module values are kept.
struct PublishingTarget {
  std::shared_ptr<ValueProgram> program;
  std::function<void(ValueSample)> keep;  // its times are of CLOCK_MONOTONIC
};

class ValueSampler {
 public:
  static constexpr std::chrono::milliseconds kInterval{1000};
  // Share of the time of one processor.
  static constexpr int kMaxPercent = 1;

  // list: returns the current targets; called by the thread.
  explicit ValueSampler(std::function<std::vector<PublishingTarget>()> list);
  ValueSampler(const ValueSampler&) = delete;
  ValueSampler& operator=(const ValueSampler&) = delete;
  void stop() { thread_.stop(); }

  // Time until the next reading, given the CPU time of the last one.
  static std::chrono::nanoseconds rest_after(std::chrono::nanoseconds cpu_time);

 private:
  void check();

  const std::function<std::vector<PublishingTarget>()> list_;
  PeriodicThread thread_;
};

}  // namespace memprofd
