// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tick_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace memprofd {
namespace {

// Sums of ticks become times that never fall.
TEST(TickClock, ItsRateStays) {
  const TickMoment first = tick_now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const TickMoment last = tick_now();
  EXPECT_EQ(first.ns_per_tick, last.ns_per_tick);
  const double told = static_cast<double>(last.ticks - first.ticks) * last.ns_per_tick;
  EXPECT_NEAR(told / static_cast<double>(last.ns - first.ns), 1, 0.1);
}

}  // namespace
}  // namespace memprofd
