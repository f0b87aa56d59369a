// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/lost_allocations.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace memprofd {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(LostAllocations, OthersCountForThoseThatAreMissingByNumber) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  for (std::uint64_t id : {1, 2, 3}) EXPECT_EQ(lost.on_alloc(0, id), 0);
  lost.on_lost(0, 10);
  std::vector<int> log2;
  for (std::uint64_t id : {7, 8, 9, 10, 11}) log2.push_back(lost.on_alloc(0, id));
  EXPECT_EQ(log2, (std::vector<int>{1, 1, 1, 0, 0}));
  EXPECT_EQ(lost.owed(), 0);
  EXPECT_EQ(lost.not_made_up(), 0u);
}

// All records of unknown kind count as allocations until the next number shows how many were.
TEST(LostAllocations, UntilTheyAreMadeUpForTheyAreMissing) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  for (std::uint64_t id : {1, 2, 3}) lost.on_alloc(0, id);
  EXPECT_EQ(lost.missing(), 0);
  lost.on_lost(0, 10);
  EXPECT_EQ(lost.missing(), 10);
  lost.on_alloc(0, 7);
  EXPECT_EQ(lost.missing(), 2) << "4, 5 and 6 were lost, and 7 counts for one of them";
  lost.begin_session(0.02);
  EXPECT_EQ(lost.missing(), 4) << "in samples of this session";
  lost.end();
  EXPECT_EQ(lost.missing(), 4);
}

TEST(LostAllocations, BuffersHaveNumbersOfTheirOwn) {
  LostAllocations lost(MEMPROF_BUFFERS);
  lost.begin_session(0.01);
  EXPECT_EQ(lost.on_alloc(3, 10 * MEMPROF_BUFFERS + 3), 0);
  EXPECT_EQ(lost.on_alloc(4, 500 * MEMPROF_BUFFERS + 4), 0);
  lost.on_lost(3, 10);
  EXPECT_EQ(lost.on_alloc(4, 501 * MEMPROF_BUFFERS + 4), 0);
  EXPECT_EQ(lost.on_alloc(3, 13 * MEMPROF_BUFFERS + 3), 1);
  EXPECT_EQ(lost.owed(), 1);
}

TEST(LostAllocations, TheFirstOnesOfABufferMayBeLost) {
  LostAllocations lost(MEMPROF_BUFFERS);
  lost.begin_session(0.01);
  lost.begin_after(3, 100);
  lost.on_lost(3, 10);
  EXPECT_EQ(lost.on_alloc(3, 105 * MEMPROF_BUFFERS + 3), 1);
  EXPECT_EQ(lost.owed(), 3);
}

// Implausible numbers do not count: gaps without a loss, or gaps larger than the loss.
TEST(LostAllocations, NumbersAreNotTrusted) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  lost.on_lost(0, 5);
  EXPECT_EQ(lost.on_alloc(0, 1'000'000), 0) << "how many came before is not known";
  EXPECT_EQ(lost.not_made_up(), 5u);
  EXPECT_EQ(lost.on_alloc(0, 2'000'000), 0);
  lost.on_lost(0, 5);
  EXPECT_EQ(lost.on_alloc(0, 3), 0);
  lost.on_lost(0, 5);
  EXPECT_EQ(lost.on_alloc(0, kMax), 1);
  EXPECT_EQ(lost.owed(), 4);
  for (int i = 0; i < 3; ++i) {
    lost.on_alloc(0, 7);
    lost.on_lost(0, kMax / 2);
    EXPECT_LE(lost.on_alloc(0, kMax - 1), LostAllocations::kMaxLog2);
    EXPECT_LE(lost.owed(), LostAllocations::kMaxOwed);
  }
  EXPECT_GT(lost.not_made_up(), kMax / 4);
}

TEST(LostAllocations, WhereMostAreLostEachCountsForMany) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  std::uint64_t id = 1;
  double counted = 0, allocated = 0;
  lost.on_alloc(0, id);
  for (int round = 0; round < 1000; ++round) {
    lost.on_lost(0, 900);
    id += 900;
    for (int i = 0; i < 100; ++i) {
      const int log2 = lost.on_alloc(0, ++id);
      EXPECT_LE(log2, 4);
      counted += 1 << log2;
    }
    allocated += 1000;
  }
  EXPECT_EQ(counted + lost.owed(), allocated);
  EXPECT_LT(lost.owed(), 16 * LostAllocations::kMinHorizon);
}

// A long gap is compensated over the same length.
TEST(LostAllocations, AfterOneHoleEachCountsForTwo) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  lost.on_alloc(0, 1);
  lost.on_lost(0, 300'000);
  std::uint64_t id = 100'001, made_up = 0;
  for (; lost.on_alloc(0, ++id) == 1; ++made_up) {
  }
  EXPECT_EQ(made_up, 100'000u);
}

// 100 samples at 1 % are 1,000 at 10 %.
TEST(LostAllocations, AnotherRateOwesAsManyWords) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  lost.on_alloc(0, 1);
  lost.on_lost(0, 101);
  lost.on_alloc(0, 103);
  EXPECT_EQ(lost.owed(), 100);
  lost.begin_session(0.1);
  EXPECT_NEAR(lost.owed(), 1000, 1e-9);
  lost.end();
  EXPECT_EQ(lost.owed(), 0);
  EXPECT_EQ(lost.not_made_up(), 1000u);
}

// One buffer is reported, one is not, one has only unknown blocks, one lost none.
TEST(LostAllocations, LossesAtTheEndAreCounted) {
  LostAllocations lost(MEMPROF_BUFFERS);
  lost.begin_session(0.01);
  for (const std::uint32_t buffer : {0, 1, 3}) lost.on_alloc(buffer, 10 * MEMPROF_BUFFERS + buffer);
  for (const std::uint32_t buffer : {0, 1, 2}) lost.on_lost(buffer, 20);
  lost.on_reached(0, 17);
  lost.on_reached(3, 10);
  lost.end();
  EXPECT_EQ(lost.not_made_up(), 7u + 20 + 20);
}

// A buffer's position before a loss gives no information about the loss.
TEST(LostAllocations, APositionBeforeALossSaysNothingAboutIt) {
  LostAllocations lost(1);
  lost.begin_session(0.01);
  lost.on_alloc(0, 10);
  lost.on_reached(0, 10);
  lost.on_lost(0, 5);
  lost.end();
  EXPECT_EQ(lost.not_made_up(), 5u);
}

// The losses may be of either session; they count at the lower weight per sample.
TEST(LostAllocations, ALossAtTheBeginningOfASessionIsNotBlownUp) {
  for (const double next : {0.1, 0.001}) {
    LostAllocations lost(1);
    lost.begin_session(0.01);
    lost.on_alloc(0, 1);
    lost.on_lost(0, 500);
    lost.begin_session(next);
    lost.on_alloc(0, 502);
    EXPECT_NEAR(lost.owed(), next == 0.1 ? 499 : 49, 1.01) << next;
  }
}

}  // namespace
}  // namespace memprofd
