// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/tick_pace.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

using std::chrono::milliseconds;

constexpr TickPace::TimePoint kBegin{std::chrono::hours(1)};

int ticks_while_waiting(TickPace& pace, std::chrono::milliseconds time) {
  int ticks = 0;
  for (auto now = kBegin; now < kBegin + time; now = pace.due_at(), ++ticks) {
    pace.ticked_waiting(now);
  }
  return ticks;
}

TEST(TickPace, AStateIsCheckedAsSoonAsItIsEntered) {
  TickPace pace;
  pace.enter(kBegin);
  EXPECT_EQ(pace.due_at(), kBegin);
}

TEST(TickPace, ANewStateIsPolledOften) {
  TickPace pace;
  pace.enter(kBegin);
  EXPECT_EQ(ticks_while_waiting(pace, milliseconds(100)), 10);
}

TEST(TickPace, AStateThatLastsIsPolledLessAndLess) {
  TickPace pace;
  pace.enter(kBegin);
  const int ticks = ticks_while_waiting(pace, milliseconds(60'000));
  EXPECT_GT(ticks, 300);
  EXPECT_LT(ticks, 400);
  const auto late = kBegin + milliseconds(60'000);
  pace.ticked_waiting(late);
  EXPECT_EQ(pace.due_at(), late + TickPace::kSteady);
}

TEST(TickPace, AStopIsCheckedOftenAtFirst) {
  TickPace pace;
  pace.enter(kBegin);
  pace.ticked_stopping(kBegin);
  EXPECT_EQ(pace.due_at(), kBegin + TickPace::kAtOnce);
  const auto late = kBegin + milliseconds(60'000);
  pace.ticked_stopping(late);
  EXPECT_EQ(pace.due_at(), late + TickPace::kSteady);
}

}  // namespace
}  // namespace memprofd
