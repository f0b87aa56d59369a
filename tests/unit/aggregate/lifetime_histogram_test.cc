// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/lifetime_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kit/quantile.h"

namespace memprofd {
namespace {

constexpr int kLast = LifetimeHistogram::kBuckets - 1;

TEST(LifetimeHistogramTest, BoundsAreTwoAnOctave) {
  EXPECT_DOUBLE_EQ(LifetimeHistogram::upper_bound_ns(0), 1000);
  EXPECT_DOUBLE_EQ(LifetimeHistogram::upper_bound_ns(2), 2000);
  EXPECT_DOUBLE_EQ(LifetimeHistogram::upper_bound_ns(20), 1024000);
  EXPECT_TRUE(std::isinf(LifetimeHistogram::upper_bound_ns(kLast)));
  const double days = LifetimeHistogram::upper_bound_ns(kLast - 1) / 86400e9;
  EXPECT_NEAR(days, 25.5, 0.1);
}

TEST(LifetimeHistogramTest, EveryLifetimeIsBelowItsBoundAndNotBelowTheOneBefore) {
  for (std::uint64_t ns = 0; ns < (1ull << 52); ns = ns * 9 / 8 + 1) {
    const int bucket = LifetimeHistogram::bucket_of(ns);
    EXPECT_LT(static_cast<double>(ns), LifetimeHistogram::upper_bound_ns(bucket));
    if (bucket > 0) {
      EXPECT_GE(static_cast<double>(ns), LifetimeHistogram::upper_bound_ns(bucket - 1));
    }
  }
  for (int bucket = 0; bucket < kLast; ++bucket) {
    const double bound = LifetimeHistogram::upper_bound_ns(bucket);
    const auto first_above = static_cast<std::uint64_t>(std::ceil(bound));
    EXPECT_EQ(LifetimeHistogram::bucket_of(first_above), bucket + 1);
    EXPECT_EQ(LifetimeHistogram::bucket_of(first_above - 1), bucket);
  }
  EXPECT_EQ(LifetimeHistogram::bucket_of(999), 0);
  EXPECT_EQ(LifetimeHistogram::bucket_of(1000), 1);
  EXPECT_EQ(LifetimeHistogram::bucket_of(std::numeric_limits<std::uint64_t>::max()), kLast);
}

TEST(LifetimeHistogramTest, QuantilesAreWithinTheirBucket) {
  LifetimeHistogram histogram;
  histogram.add(5'000, 50, 50);
  histogram.add(3'000'000, 40, 40);
  histogram.add(9'000'000'000, 10, 10);
  EXPECT_EQ(histogram.total(), 100u);
  EXPECT_DOUBLE_EQ(histogram.sum_ns(), 50 * 5e3 + 40 * 3e6 + 10 * 9e9);
  EXPECT_NEAR(testing::quantile_ns(histogram, 0.25) / 5e3, 1, 0.42);
  EXPECT_NEAR(testing::quantile_ns(histogram, 0.75) / 3e6, 1, 0.42);
  EXPECT_NEAR(testing::quantile_ns(histogram, 0.99) / 9e9, 1, 0.42);
  EXPECT_LT(testing::quantile_ns(histogram, 0.1), testing::quantile_ns(histogram, 0.4));
}

TEST(LifetimeHistogramTest, TheFirstBucketIsLinearAndTheLastHasNoEnd) {
  EXPECT_EQ(LifetimeHistogram::value_at(0, 0), 0);
  EXPECT_EQ(LifetimeHistogram::value_at(0, 0.5), 500);
  EXPECT_EQ(LifetimeHistogram::value_at(0, 1), 1000);
  EXPECT_EQ(LifetimeHistogram::value_at(kLast, 0.5), LifetimeHistogram::upper_bound_ns(kLast - 1));
}

TEST(LifetimeHistogramTest, CountsNeitherStopNorWrapAt32Bits) {
  LifetimeHistogram histogram, other;
  histogram.add(1, std::numeric_limits<std::uint32_t>::max(), 1);
  histogram.add(1, 10, 10);
  other.add(1, 10, 10);
  histogram += other;
  EXPECT_EQ(histogram.count(0), std::numeric_limits<std::uint32_t>::max() + 20ull);
  EXPECT_EQ(histogram.total(), std::numeric_limits<std::uint32_t>::max() + 20ull);
}

TEST(LifetimeHistogramTest, SumIsThatOfBoth) {
  LifetimeHistogram a, b;
  a.add(1'500, 2, 2);
  b.add(1'500, 3, 3);
  b.add(70'000, 1, 1);
  a += b;
  EXPECT_EQ(a.total(), 6u);
  EXPECT_EQ(a.count(LifetimeHistogram::bucket_of(1'500)), 5u);
  EXPECT_DOUBLE_EQ(a.sum_ns(), 5 * 1500.0 + 70000);
}

TEST(LifetimeHistogramTest, SharesOfABucketAddUp) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (int bucket = 0; bucket <= kLast; ++bucket) {
    const double low = bucket == 0 ? 0 : LifetimeHistogram::upper_bound_ns(bucket - 1);
    const double high = bucket == kLast ? 4 * low : LifetimeHistogram::upper_bound_ns(bucket);
    const auto share = [&](double min, double max) {
      return LifetimeHistogram::share_within(bucket, min, max);
    };
    EXPECT_EQ(share(0, infinity), 1);
    EXPECT_EQ(share(low, high), 1);
    EXPECT_EQ(share(0, low), 0);
    EXPECT_EQ(share(high, infinity), 0);
    EXPECT_EQ(share(high, low), 0) << "none is longer than the one and shorter than the other";
    const double middle = (low + high) / 2;
    EXPECT_GT(share(0, middle), 0);
    EXPECT_DOUBLE_EQ(share(0, middle) + share(middle, infinity), 1);
  }
  EXPECT_DOUBLE_EQ(LifetimeHistogram::share_within(0, 250, 750), 0.5) << "linear";
  EXPECT_DOUBLE_EQ(LifetimeHistogram::share_within(2, 1000 * std::exp2(0.75), infinity), 0.5)
      << "on the log scale";
}

TEST(LifetimeHistogramTest, TheMiddleHalvesABucket) {
  EXPECT_EQ(LifetimeHistogram::middle_ns(0), 500);
  for (int bucket = 0; bucket < kLast; ++bucket) {
    const double middle = LifetimeHistogram::middle_ns(bucket);
    EXPECT_EQ(LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(middle)), bucket);
    EXPECT_NEAR(LifetimeHistogram::share_within(bucket, 0, middle), 0.5, 1e-9);
  }
  EXPECT_EQ(LifetimeHistogram::middle_ns(kLast), LifetimeHistogram::upper_bound_ns(kLast - 1));
}

TEST(LifetimeHistogramTest, BucketsAndTheirSumAreToldApart) {
  LifetimeHistogram histogram;
  histogram.add_bucket(4, 3, 3);
  histogram.add_bucket(kLast, 1, 1);
  EXPECT_EQ(histogram.total(), 4u);
  EXPECT_EQ(histogram.count(4), 3u);
  EXPECT_EQ(histogram.sum_ns(), 0);
  histogram.set_sum_ns(12);
  EXPECT_EQ(histogram.sum_ns(), 12);
}

TEST(LifetimeHistogramTest, AMeanShareIsTheMeanOfShares) {
  for (const int bucket : {0, 1, 30, LifetimeHistogram::kBuckets - 1}) {
    const double high = bucket == LifetimeHistogram::kBuckets - 1
                            ? 4 * LifetimeHistogram::upper_bound_ns(bucket - 1)
                            : LifetimeHistogram::upper_bound_ns(bucket);
    for (const double from : {-0.5, 0.0, 0.3, 0.8, 1.5}) {
      for (const double length : {0.0, 0.1, 0.6, 3.0}) {
        double sum = 0;
        constexpr int kSteps = 20'000;
        for (int i = 0; i < kSteps; ++i) {
          const double t = high * (from + length * (i + 0.5) / kSteps);
          sum += LifetimeHistogram::share_within(bucket, 0, t);
        }
        EXPECT_NEAR(
            LifetimeHistogram::mean_share_below(bucket, high * from, high * (from + length)),
            sum / kSteps, 1e-3)
            << bucket << " from " << from << " length " << length;
      }
    }
  }
}

}  // namespace
}  // namespace memprofd
