// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_times.h"

#include <gtest/gtest.h>

#include <limits>

namespace memprofd {
namespace {

TEST(CallBuckets, EachDurationIsInItsBucket) {
  for (const std::uint64_t ns : {0ull, 1ull, 3ull, 4ull, 5ull, 7ull, 8ull, 9ull, 15ull, 16ull,
                                 1'000ull, 1'023ull, 1'024ull, 123'456'789ull, (1ull << 42) - 1}) {
    const std::uint32_t bucket = memprof_call_bucket(ns);
    ASSERT_LT(bucket, MEMPROF_CALL_BUCKETS);
    EXPECT_LE(memprof_call_bucket_ns(bucket), ns);
    EXPECT_GT(memprof_call_bucket_ns(bucket + 1), ns);
  }
  EXPECT_EQ(memprof_call_bucket(~0ull), MEMPROF_CALL_BUCKETS - 1);
}

TEST(CallBuckets, AreAtMostAQuarterWide) {
  for (std::uint32_t bucket = 4; bucket + 1 < MEMPROF_CALL_BUCKETS; ++bucket) {
    const std::uint64_t low = memprof_call_bucket_ns(bucket);
    EXPECT_LE((memprof_call_bucket_ns(bucket + 1) - low) * 4, low) << bucket;
  }
}

TEST(CallTimes, QuantilesAreBuckets) {
  memprof_call_counts counts{};
  counts.calls = 105;
  counts.returned = 90;
  counts.tails = 10;
  counts.raised = 2;
  counts.total_ns = 5'000'000'000;
  counts.buckets[memprof_call_bucket(1'000)] = 89;
  counts.buckets[memprof_call_bucket(5'000)] = 10;
  counts.buckets[MEMPROF_CALL_BUCKETS - 1] = 1;
  const CallTimes times = call_times(counts);
  EXPECT_EQ(times.running, 3u);
  EXPECT_DOUBLE_EQ(times.seconds, 5);
  EXPECT_EQ(times.ns.p50.low, 896u);
  EXPECT_EQ(times.ns.p50.high, 1024u);
  EXPECT_EQ(times.ns.p90.low, 4096u);
  EXPECT_EQ(times.ns.p99.low, 4096u);
  counts.buckets[MEMPROF_CALL_BUCKETS - 1] = 2;
  EXPECT_EQ(call_times(counts).ns.p99.high, std::numeric_limits<std::uint64_t>::max());
}

TEST(CallTimes, NoneAreNone) {
  const CallTimes times = call_times({});
  EXPECT_EQ(times.running, 0u);
  EXPECT_EQ(times.ns.p50.high, 0u);
  EXPECT_EQ(times.words_each.p50.high, 0u);
}

TEST(CallTimes, WordsAreOfThoseThatAreKnown) {
  memprof_call_counts counts{};
  counts.calls = counts.returned = 10;
  counts.unsized = 1;
  counts.words = 6 * 8 + 1000;
  counts.word_buckets[memprof_call_bucket(6)] = 8;
  counts.word_buckets[memprof_call_bucket(1000)] = 1;
  const CallTimes times = call_times(counts);
  EXPECT_EQ(times.words, 1048u);
  EXPECT_EQ(times.unsized, 1u);
  EXPECT_EQ(times.words_each.p50.low, 6u);
  EXPECT_EQ(times.words_each.p50.high, 7u);
  EXPECT_EQ(times.words_each.p99.low, 896u);
}

}  // namespace
}  // namespace memprofd
