// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tick_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

double ns_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

// Sums of ticks become times that never fall. The thread may lose its processor between any two
// readings, so the time between two ticks lies between the inner and outer clock readings.
TEST(TickClock, ItsRateStays) {
  (void)tick_now();  // finds the rate
  const Clock::time_point before_first = Clock::now();
  const TickMoment first = tick_now();
  const Clock::time_point after_first = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the span that is measured
  const Clock::time_point before_last = Clock::now();
  const TickMoment last = tick_now();
  const Clock::time_point after_last = Clock::now();
  EXPECT_EQ(first.ns_per_tick, last.ns_per_tick);
  const double told = static_cast<double>(last.ticks - first.ticks) * last.ns_per_tick;
  EXPECT_GT(told, 0.9 * ns_between(after_first, before_last));
  EXPECT_LT(told, 1.1 * ns_between(before_first, after_last));
  EXPECT_GE(last.ns, first.ns + 50'000'000);
}

}  // namespace
}  // namespace memprofd
