// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/periodic_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

namespace memprofd {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(PeriodicThread, RepeatsItsJobUntilItIsStopped) {
  std::atomic<int> turns{0};
  PeriodicThread thread({"turns", "to count turns"}, [&] {
    ++turns;
    return milliseconds(1);
  });
  while (turns < 3) {
  }
  thread.stop();
  EXPECT_FALSE(thread.is_running());
  const int seen = turns;
  thread.stop();
  EXPECT_EQ(seen, turns);
}

TEST(PeriodicThread, IsStoppedBeforeItsFirstTurn) {
  std::atomic<int> turns{0};
  {
    const PeriodicThread thread({"turns", "to count turns", hours(1)}, [&] {
      ++turns;
      return milliseconds(1);
    });
  }
  EXPECT_EQ(0, turns);
}

TEST(PeriodicThread, ATurnThatThrowsIsNotTheLast) {
  std::atomic<int> turns{0};
  PeriodicThread thread({"turns", "to count turns"}, [&]() -> std::chrono::nanoseconds {
    if (++turns == 2) throw std::bad_alloc();
    return milliseconds(1);
  });
  while (turns < 4) {
  }
}

}  // namespace
}  // namespace memprofd
