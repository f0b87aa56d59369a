// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/tally.h"

#include <gtest/gtest.h>

#include <random>

#include "daemon/aggregate/aggregator.h"
#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

// What events of blocks of several sizes and classes make, over sessions and losses. Counters are
// asked for after so many blocks each time.
std::vector<Counters> counters_asked_for_each(std::uint32_t blocks, DropCounters& drops) {
  Aggregator aggregator({.live_samples = 900}, drops);
  std::mt19937 random(5);
  std::uint32_t generation = 1;
  aggregator.begin_session(0.01, generation, false);
  for (std::uint32_t i = 1; i <= 20'000; ++i) {
    memprof_record record = sample_record(1000 * i, i, MEMPROF_ALLOC_MINOR, 1 + random() % 3);
    record.size_words = random() % 20 == 0 ? 1'000 : 1 + random() % 9;
    aggregator.alloc(record, CallstackId(random() % 7), 0, random() % 50 == 0 ? 2 : 0);
    const std::uint64_t other = 1 + random() % i;
    if (random() % 3 == 0) aggregator.promote(sample_record(1000 * i, other, MEMPROF_PROMOTE));
    if (random() % 9 != 0) {
      aggregator.dealloc(sample_record(1000 * i, other, MEMPROF_DEALLOC_MAJOR));
    }
    aggregator.dealloc(sample_record(1000 * i, i - random() % 20, MEMPROF_DEALLOC_MINOR));
    if (i % 3'000 == 0) aggregator.begin_session(i % 2'000 == 0 ? 0.1 : 0.02, ++generation, true);
    if (i % 7'000 == 0) aggregator.start_over();
    if (i % blocks == 0) (void)aggregator.by_class();
  }
  return aggregator.by_class();
}

void expect_alike(const Estimate& a, const Estimate& b) {
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_NEAR(a.words, b.words, 1e-9 * (1 + b.words));
  EXPECT_NEAR(a.variance_words2, b.variance_words2, 1e-9 * (1 + b.variance_words2));
  EXPECT_NEAR(a.skew_words3, b.skew_words3, 1e-9 * (1 + b.skew_words3));
}

void expect_alike(const DeathCounts& a, const DeathCounts& b) {
  ASSERT_EQ(a.entries().size(), b.entries().size());
  for (std::size_t i = 0; i < b.entries().size(); ++i) {
    EXPECT_EQ(a.entries()[i].code, b.entries()[i].code);
    EXPECT_EQ(a.entries()[i].n, b.entries()[i].n);
    EXPECT_NEAR(a.entries()[i].words, b.entries()[i].words, 1e-9 * b.entries()[i].words);
    EXPECT_NEAR(a.entries()[i].squares, b.entries()[i].squares, 1e-9 * b.entries()[i].squares);
  }
  EXPECT_NEAR(a.sum_ns(), b.sum_ns(), 1e-9 * (1 + b.sum_ns()));
}

// A tally is as large as counts added directly.
TEST(TallyTest, CountersAreTheSameHoweverSeldomTheyAreAskedFor) {
  DropCounters drops_always, drops_once;
  const std::vector<Counters> always = counters_asked_for_each(1, drops_always);
  const std::vector<Counters> once = counters_asked_for_each(1u << 30, drops_once);
  ASSERT_EQ(once.size(), always.size());
  for (std::size_t id = 0; id < always.size(); ++id) {
    const Counters &a = once[id], &b = always[id];
    expect_alike(a.allocated, b.allocated);
    expect_alike(a.promoted, b.promoted);
    expect_alike(a.live, b.live);
    for (int heap = 0; heap < kHeaps; ++heap)
      expect_alike(a.deallocated[heap], b.deallocated[heap]);
    EXPECT_NEAR(a.allocated_objects, b.allocated_objects, 1e-9 * (1 + b.allocated_objects));
    EXPECT_NEAR(a.live_objects, b.live_objects, 1e-9 * (1 + b.live_objects));
    expect_alike(a.deaths, b.deaths);
    expect_alike(a.forgotten, b.forgotten);
  }
}

}  // namespace
}  // namespace memprofd
