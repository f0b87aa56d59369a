// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "agent-lib/clock.h"

namespace memprofd {
namespace {

// A machine's counter and clock, as far as the clock under test asks for them.
struct Machine {
  static inline std::uint64_t ticks = 0, ns = 0, reads = 0, interruption_ns = 0;

  static std::uint64_t count() { return ticks; }
  static std::uint64_t read() {
    ++reads;
    pass(interruption_ns, 270);
    return ns;
  }
  static void pass(std::uint64_t passed_ns, std::uint64_t ticks_per_100_ns) {
    ns += passed_ns;
    ticks += passed_ns * ticks_per_100_ns / 100;
  }
};

class AgentClock : public ::testing::Test {
 protected:
  AgentClock() {
    Machine::ticks = 7'000'000'000;
    Machine::ns = 5'000'000'000;
    Machine::reads = Machine::interruption_ns = 0;
  }

  std::uint64_t now() { return memprof_clock_now(&clock_, Machine::count, Machine::read); }
  // Steps of 1 us at 2.7 ticks a ns; the largest error that was met.
  std::int64_t run(int microseconds, std::uint64_t ticks_per_100_ns = 270) {
    std::int64_t worst = 0;
    for (int i = 0; i < microseconds; ++i) {
      Machine::pass(1000, ticks_per_100_ns);
      const auto error = static_cast<std::int64_t>(now() - Machine::ns);
      worst = std::max(worst, std::abs(error));
    }
    return worst;
  }

  memprof_clock clock_{};
};

TEST_F(AgentClock, ReadsUntilItKnowsTheScaleThenRarely) {
  EXPECT_EQ(run(1000), 0);
  EXPECT_GE(Machine::reads, 1000u);
  Machine::reads = 0;
  EXPECT_LT(run(1'000'000), 100);  // ns, in a second
  EXPECT_LT(Machine::reads, 110u);
}

TEST_F(AgentClock, IsExactAfterAPause) {
  run(20'000);
  for (const std::uint64_t pause_ns :
       {11'000'000ull, 900'000'000ull, 5'000'000'000ull, 1ull << 55}) {
    Machine::pass(pause_ns, 270);
    EXPECT_EQ(now(), Machine::ns) << pause_ns;
    EXPECT_LT(run(20'000), 100) << pause_ns;
  }
}

TEST_F(AgentClock, FollowsACounterThatChangesItsPace) {
  run(20'000);
  // Simulates a migration to another machine: the error is at most the rest of 10 ms.
  EXPECT_LT(run(30'000, 400), 10'000'000);
  EXPECT_LT(run(100'000, 400), 100);
}

TEST_F(AgentClock, DoesNotBelieveACounterThatLeapsOrGoesBack) {
  run(20'000);
  for (const std::int64_t leap : {-1'000'000'000'000, 1'000'000'000'000, -5'000'000'000}) {
    Machine::ticks += static_cast<std::uint64_t>(leap);
    EXPECT_LT(run(1), 20'000'000) << leap;
    run(20'000);
    EXPECT_LT(run(20'000), 100) << leap;
  }
}

TEST_F(AgentClock, TakesNoReadThatWasInterrupted) {
  run(20'000);
  Machine::interruption_ns = 3'000'000;
  Machine::pass(20'000'000, 270);
  now();
  Machine::interruption_ns = 0;
  EXPECT_LT(run(20'000), 100);
}

TEST_F(AgentClock, NeverGoesBack) {
  std::uint64_t last = 0;
  std::uint64_t random = 1;
  for (int i = 0; i < 200'000; ++i) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    Machine::ns += random >> 50;
    Machine::ticks += (random >> 20 & 0xffff) - (random % 64 == 0 ? 200'000 : 0);
    const std::uint64_t time = now();
    ASSERT_GE(time, last);
    last = time;
  }
}

}  // namespace
}  // namespace memprofd
