// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/death_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "tests/kit/quantile.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();

std::map<std::uint8_t, std::uint32_t> by_code(const DeathCounts& deaths) {
  std::map<std::uint8_t, std::uint32_t> result;
  for (const DeathCounts::Entry& entry : deaths.entries()) {
    EXPECT_TRUE(result.emplace(entry.code, entry.n).second) << "each code once";
    EXPECT_GT(entry.n, 0u);
  }
  EXPECT_TRUE(std::is_sorted(deaths.entries().begin(), deaths.entries().end(),
                             [](const auto& a, const auto& b) { return a.code < b.code; }));
  return result;
}

// Blocks of one sample each.
DeathCounts::Entry entry_of(std::uint8_t code, std::uint64_t n_samples, double words_each) {
  const double words = static_cast<double>(n_samples) * words_each;
  return {code, n_samples, words, words * words_each};
}

TEST(DeathCounts, CodesTellHeapAndBucket) {
  for (const Heap heap : {Heap::kMinor, Heap::kMajor}) {
    for (int bucket = 0; bucket < LifetimeHistogram::kBuckets; ++bucket) {
      const DeathCounts::Entry entry{DeathCounts::code_of(heap, bucket), 1};
      EXPECT_EQ(entry.heap(), heap);
      EXPECT_EQ(entry.bucket(), bucket);
    }
  }
}

TEST(DeathCounts, AddsByHeapAndBucket) {
  DeathCounts deaths;
  EXPECT_TRUE(deaths.empty());
  deaths.add(Heap::kMinor, 500, 2, 1);
  deaths.add(Heap::kMinor, 700, 3, 1);  // the same bucket
  deaths.add(Heap::kMajor, 500, 1, 1);
  deaths.add(Heap::kMajor, 5'000'000, 0, 1);
  EXPECT_EQ(by_code(deaths), (std::map<std::uint8_t, std::uint32_t>{{0x00, 5}, {0x80, 1}}));
  EXPECT_DOUBLE_EQ(deaths.sum_ns(), 2 * 500 + 3 * 700 + 500);
  deaths.clear();
  EXPECT_TRUE(deaths.empty());
  EXPECT_EQ(deaths.sum_ns(), 0);
}

TEST(DeathCounts, ABucketCountsWithItsMiddle) {
  DeathCounts deaths;
  deaths.add(entry_of(DeathCounts::code_of(Heap::kMajor, 20), 4, 1));
  EXPECT_DOUBLE_EQ(deaths.sum_ns(), 4 * LifetimeHistogram::middle_ns(20));
  EXPECT_EQ(deaths.entries().front().heap(), Heap::kMajor);
}

TEST(DeathCounts, WhatIsRemovedIsGone) {
  const std::uint8_t young = DeathCounts::code_of(Heap::kMinor, 3);
  const std::uint8_t old = DeathCounts::code_of(Heap::kMajor, 3);
  DeathCounts deaths;
  deaths.add(entry_of(old, 7, 1));
  deaths.add(entry_of(young, 5, 1));
  deaths.remove_code(young, 2, 1);
  EXPECT_EQ(by_code(deaths), (std::map<std::uint8_t, std::uint32_t>{{young, 3}, {old, 7}}));
  EXPECT_DOUBLE_EQ(deaths.sum_ns(), 10 * LifetimeHistogram::middle_ns(3));
  deaths.remove_code(young, 3, 1);
  EXPECT_EQ(by_code(deaths), (std::map<std::uint8_t, std::uint32_t>{{old, 7}}));
  deaths.remove_code(old, 7, 1);
  EXPECT_TRUE(deaths.empty());
  EXPECT_EQ(deaths.sum_ns(), 0);
}

// 1,000 samples at one rate stand for fewer words than 100 at another.
TEST(DeathCounts, SamplesOfSeveralRatesCountByTheirWords) {
  DeathCounts deaths;
  deaths.add(Heap::kMinor, 1'000'000, 1'000, 1e2);
  deaths.add(Heap::kMajor, 4'000'000'000, 100, 1e5);
  const LifetimeHistogram histogram = deaths.histogram();
  EXPECT_NEAR(histogram.words(LifetimeHistogram::bucket_of(1'000'000)), 1e5, 1e-3);
  EXPECT_NEAR(histogram.words(LifetimeHistogram::bucket_of(4'000'000'000)), 1e7, 1e-3);
  EXPECT_NEAR(testing::quantile_ns(histogram, 0.5) / 4e9, 1, 0.42);
  EXPECT_NEAR(deaths.sum_ns(), 1e6 * 1e5 + 4e9 * 1e7, 1e9);
  const std::uint8_t young =
      DeathCounts::code_of(Heap::kMinor, LifetimeHistogram::bucket_of(1'000'000));
  deaths.add(entry_of(young, 10, 1e5));
  deaths.remove_code(young, 1'000, 1e2);
  EXPECT_NEAR(deaths.entries().front().words, 1e6, 1e-3);
}

TEST(DeathCounts, MoreThanThereIsCannotBeRemoved) {
  const std::uint8_t code = DeathCounts::code_of(Heap::kMinor, 3);
  const std::uint8_t other = DeathCounts::code_of(Heap::kMinor, 9);
  DeathCounts deaths;
  deaths.add(entry_of(code, 2, 1));
  deaths.add(entry_of(other, 2, 1));
  deaths.remove_code(code, 1000, 1);
  EXPECT_EQ(by_code(deaths), (std::map<std::uint8_t, std::uint32_t>{{other, 2}}));
  EXPECT_DOUBLE_EQ(deaths.sum_ns(), 2 * LifetimeHistogram::middle_ns(9)) << "the others' sum stays";
  deaths.remove_code(code, 1, 1);
  EXPECT_EQ(deaths.entries().size(), 1u);
}

TEST(DeathCounts, TheSumNeverFallsBelowZero) {
  DeathCounts deaths;
  const std::uint64_t shortest = 1000;  // of bucket 1, whose middle is longer
  deaths.add(Heap::kMinor, shortest, 2, 1);
  deaths.remove_code(DeathCounts::code_of(Heap::kMinor, 1), 1, 1);
  EXPECT_GE(deaths.sum_ns(), 0);
  deaths.add(Heap::kMinor, 0, 1, 1);
  deaths.remove_code(DeathCounts::code_of(Heap::kMinor, 1), 1, 1);
  EXPECT_GE(deaths.sum_ns(), 0);
}

TEST(DeathCounts, SumOfTwo) {
  DeathCounts a, b;
  a.add(Heap::kMinor, 500, 1, 1);
  b.add(Heap::kMinor, 600, 2, 1);
  b.add(Heap::kMajor, 600, 3, 1);
  a += b;
  EXPECT_EQ(by_code(a), (std::map<std::uint8_t, std::uint32_t>{{0x00, 3}, {0x80, 3}}));
  EXPECT_DOUBLE_EQ(a.sum_ns(), 500 + 5 * 600);
  a += a;
  EXPECT_EQ(by_code(a), (std::map<std::uint8_t, std::uint32_t>{{0x00, 6}, {0x80, 6}}));
  EXPECT_DOUBLE_EQ(a.sum_ns(), 2 * (500 + 5 * 600));
}

TEST(DeathCounts, NeitherStopNorWrapAt32Bits) {
  DeathCounts deaths;
  deaths.add(Heap::kMinor, 1, kMax, 1);
  deaths.add(Heap::kMinor, 1, 10, 1);
  EXPECT_EQ(deaths.entries().front().n, kMax + 10ull);
  deaths += deaths;
  EXPECT_EQ(deaths.entries().front().n, 2 * (kMax + 10ull));
  deaths.remove_code(deaths.entries().front().code, kMax + 10ull, 1);
  EXPECT_EQ(deaths.histogram().count(0), kMax + 10ull);
}

// Only the number of owners orders the reader before the change: ThreadSanitizer sees whether it
// does.
TEST(DeathCounts, ChangesComeAfterTheReadsOfFormerCopies) {
  DeathCounts deaths;
  deaths.add(Heap::kMinor, 500, 1, 1);
  std::atomic<bool> dropped = false;
  std::thread reader([copy = deaths, &dropped]() mutable {
    EXPECT_EQ(copy.entries().front().n, 1u);
    copy = DeathCounts();
    dropped.store(true, std::memory_order_relaxed);
  });
  while (!dropped.load(std::memory_order_relaxed)) std::this_thread::yield();
  deaths.add(Heap::kMinor, 500, 1, 1);
  reader.join();
  EXPECT_EQ(deaths.entries().front().n, 2u);
}

TEST(DeathCounts, ACopyStaysAsItWas) {
  DeathCounts deaths;
  deaths.add(Heap::kMinor, 500, 1, 1);
  const DeathCounts copy = deaths;
  deaths.add(Heap::kMinor, 500, 1, 1);
  DeathCounts moved = std::move(deaths);
  deaths = copy;
  deaths.clear();
  EXPECT_TRUE(deaths.empty());
  EXPECT_EQ(copy.entries().front().n, 1u);
  EXPECT_EQ(moved.entries().front().n, 2u);
  moved.clear();
  EXPECT_TRUE(moved.empty());
}

TEST(DeathCounts, HistogramIsOfBothHeaps) {
  DeathCounts deaths;
  deaths.add(Heap::kMinor, 500, 1, 1);
  deaths.add(Heap::kMajor, 500, 2, 1);
  deaths.add(Heap::kMajor, 5'000'000, 4, 1);
  const LifetimeHistogram histogram = deaths.histogram();
  EXPECT_EQ(histogram.total(), 7u);
  EXPECT_EQ(histogram.count(0), 3u);
  EXPECT_EQ(histogram.count(LifetimeHistogram::bucket_of(5'000'000)), 4u);
  EXPECT_DOUBLE_EQ(histogram.sum_ns(), deaths.sum_ns());
  EXPECT_EQ(DeathCounts().histogram().total(), 0u);
}

}  // namespace
}  // namespace memprofd
