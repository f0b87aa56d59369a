#include "daemon/aggregate/lifetime_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
  EXPECT_EQ(LifetimeHistogram::bucket_of(999), 0);
  EXPECT_EQ(LifetimeHistogram::bucket_of(1000), 1);
  EXPECT_EQ(LifetimeHistogram::bucket_of(std::numeric_limits<std::uint64_t>::max()), kLast);
}

TEST(LifetimeHistogramTest, QuantilesAreWithinTheirBucket) {
  LifetimeHistogram histogram;
  histogram.add(5'000, 50);
  histogram.add(3'000'000, 40);
  histogram.add(9'000'000'000, 10);
  EXPECT_EQ(histogram.total(), 100u);
  EXPECT_DOUBLE_EQ(histogram.sum_ns(), 50 * 5e3 + 40 * 3e6 + 10 * 9e9);
  EXPECT_NEAR(histogram.quantile_ns(0.25) / 5e3, 1, 0.42);
  EXPECT_NEAR(histogram.quantile_ns(0.75) / 3e6, 1, 0.42);
  EXPECT_NEAR(histogram.quantile_ns(0.99) / 9e9, 1, 0.42);
  EXPECT_LT(histogram.quantile_ns(0.1), histogram.quantile_ns(0.4));
}

TEST(LifetimeHistogramTest, EdgesOfQuantiles) {
  LifetimeHistogram histogram;
  EXPECT_EQ(histogram.quantile_ns(0.5), 0);
  histogram.add(0, 1);
  EXPECT_EQ(histogram.quantile_ns(0.5), 500);
  EXPECT_EQ(histogram.quantile_ns(7), 1000);
  LifetimeHistogram long_lived;
  long_lived.add(std::numeric_limits<std::uint64_t>::max(), 1);
  EXPECT_EQ(long_lived.quantile_ns(0.5), LifetimeHistogram::upper_bound_ns(kLast - 1));
}

TEST(LifetimeHistogramTest, CountsSaturateInsteadOfWrapping) {
  LifetimeHistogram histogram, other;
  histogram.add(1, std::numeric_limits<std::uint32_t>::max());
  histogram.add(1, 10);
  other.add(1, 10);
  histogram += other;
  EXPECT_EQ(histogram.count(0), std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(histogram.total(), std::numeric_limits<std::uint32_t>::max() + 20ull);
}

TEST(LifetimeHistogramTest, SumIsThatOfBoth) {
  LifetimeHistogram a, b;
  a.add(1'500, 2);
  b.add(1'500, 3);
  b.add(70'000, 1);
  a += b;
  EXPECT_EQ(a.total(), 6u);
  EXPECT_EQ(a.count(LifetimeHistogram::bucket_of(1'500)), 5u);
  EXPECT_DOUBLE_EQ(a.sum_ns(), 5 * 1500.0 + 70000);
}

}  // namespace
}  // namespace memprofd
