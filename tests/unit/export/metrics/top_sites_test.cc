// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/top_sites.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

SiteKey key(const std::string& name) { return {name, name + ".ml:1"}; }

SiteSeries total(double allocated, double live = 0) {
  SiteSeries series;
  series.counts.allocated_bytes = allocated;
  series.live_bytes = live;
  return series;
}

double allocated(const SiteSeriesMap& sites, const SiteKey& key) {
  return sites.contains(key) ? sites.at(key).counts.allocated_bytes : -1;
}

double other(const SiteSeriesMap& sites) { return allocated(sites, TopSites::other_key()); }

TEST(TopSites, FollowsTheExampleOfItsHeader) {
  TopSites top(1);
  SiteSeriesMap shown = top.update({{key("a"), total(100)}, {key("b"), total(30)}});
  EXPECT_EQ(allocated(shown, key("a")), 100);
  EXPECT_EQ(allocated(shown, key("b")), -1);
  EXPECT_EQ(other(shown), 30);
  shown = top.update({{key("a"), total(110)}, {key("b"), total(200)}});
  EXPECT_EQ(allocated(shown, key("a")), 110);
  EXPECT_EQ(allocated(shown, key("b")), 200);
  EXPECT_EQ(other(shown), 200);
  shown = top.update({{key("a"), total(110)}, {key("b"), total(260)}});
  EXPECT_EQ(allocated(shown, key("b")), 260);
  EXPECT_EQ(other(shown), 200);
}

TEST(TopSites, NewSiteThatIsLargeLeavesNoTraceInOther) {
  TopSites top(2);
  top.update({{key("a"), total(100)}});
  const SiteSeriesMap shown = top.update({{key("a"), total(110)}, {key("b"), total(200)}});
  EXPECT_EQ(allocated(shown, key("b")), 200);
  EXPECT_EQ(other(shown), 0);
}

TEST(TopSites, SiteStaysWhenOthersOvertakeIt) {
  TopSites top(1);
  top.update({{key("a"), total(100)}});
  const SiteSeriesMap shown = top.update({{key("a"), total(100)}, {key("b"), total(1000)}});
  EXPECT_EQ(allocated(shown, key("a")), 100);
  EXPECT_EQ(allocated(shown, key("b")), 1000);
}

TEST(TopSites, NeverNamesMoreThanTwiceK) {
  TopSites top(2);
  SiteSeriesMap sites;
  SiteSeriesMap shown;
  for (int i = 1; i <= 20; ++i) {  // each new site is larger than all before
    sites[key(absl::StrCat("s", i))] = total(i * 1000);
    shown = top.update(sites);
    EXPECT_LE(shown.size(), 2 * 2 + 1u);
  }
  EXPECT_EQ(shown.size(), 5u);
  EXPECT_EQ(allocated(shown, key("s4")), 4000);
  EXPECT_EQ(allocated(shown, key("s5")), -1);
}

// A program with phases: other sites allocated much more long ago. `late` then retains everything
// it allocates.
TEST(TopSites, ALeakThatBeginsLateGetsASeries) {
  TopSites top(2);
  SiteSeriesMap sites;
  for (int i = 1; i <= 4; ++i) {
    sites[key(absl::StrCat("s", i))] = total(i * 1e9, 100);
    top.update(sites);
  }
  double other_before = other(top.update(sites));
  for (const double live : {150, 250}) {
    sites[key("late")] = total(live, live);
    sites[key("s1")].counts.allocated_bytes += 10;
    const SiteSeriesMap shown = top.update(sites);
    EXPECT_LE(shown.size(), 2 * 2 + 1u);
    const bool leads = live > 2 * 100;
    EXPECT_EQ(allocated(shown, key("late")), leads ? 250 : -1);
    EXPECT_EQ(shown.contains(key("s1")), !leads) << "the smallest of those that lead no more";
    EXPECT_TRUE(shown.contains(key("s4")));
    EXPECT_EQ(other(shown), other_before + (leads ? 100 + 10 : 150)) << "growth, told once";
    other_before = other(shown);
  }
}

TEST(TopSites, RanksByLivePlusAllocated) {
  TopSites top(1);
  const SiteSeriesMap shown =
      top.update({{key("leak"), total(50, 50)}, {key("churn"), total(90, 0)}});
  EXPECT_EQ(allocated(shown, key("leak")), 50);
  EXPECT_EQ(allocated(shown, key("churn")), -1);
}

TEST(TopSites, LiveBytesAddUpAlsoWhenASiteMovesOutOfOther) {
  TopSites top(1);
  top.update({{key("a"), total(100, 10)}, {key("b"), total(30, 30)}});
  const SiteSeriesMap shown =
      top.update({{key("a"), total(100, 5)}, {key("b"), total(300, 40)}, {key("c"), total(9, 9)}});
  double live = 0;
  for (const auto& [site, series] : shown) live += series.live_bytes;
  EXPECT_EQ(live, 54);
  EXPECT_EQ(shown.at(TopSites::other_key()).live_bytes, 9);
}

TEST(TopSites, LiveBytesAreReportedOnceWhenASiteIsRenamed) {
  TopSites top(2);
  SiteSeries site = total(100, 40);
  site.older[0] = {30, 9};
  top.update({{key("0x1234"), site}});
  const SiteSeriesMap shown = top.update({{key("named"), site}});
  EXPECT_EQ(allocated(shown, key("0x1234")), 100) << "counters do not fall";
  EXPECT_EQ(shown.at(key("0x1234")).live_bytes, 0);
  EXPECT_EQ(shown.at(key("0x1234")).older[0].bytes, 0);
  EXPECT_EQ(shown.at(key("named")).live_bytes, 40);
}

TEST(TopSites, SiteThatBearsTheNameOtherIsCountedInIt) {
  TopSites top(2);
  const SiteSeriesMap shown =
      top.update({{TopSites::other_key(), total(500)}, {key("a"), total(100)}});
  EXPECT_EQ(other(shown), 500);
  EXPECT_EQ(shown.size(), 2u);
}

TEST(TopSites, WithoutRoomEverythingIsOther) {
  TopSites top(0);
  const SiteSeriesMap shown = top.update({{key("a"), total(100)}, {key("b"), total(30)}});
  EXPECT_EQ(shown.size(), 1u);
  EXPECT_EQ(other(shown), 130);
}

// Random growth: no counter ever falls, and the growth of the series adds up to the growth of the
// sites, apart from the start values of new series.
TEST(TopSites, CountersNeverFallAndGrowthIsCountedOnce) {
  std::mt19937 random(7);
  TopSites top(5);
  SiteSeriesMap sites, shown_before;
  SiteSeriesMap sites_before;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 40; ++i) {
      SiteSeries& site = sites[key(absl::StrCat("s", i * (round + 40) / 240))];
      const int amount = static_cast<int>(random() % 1000);
      site.counts.allocated_bytes += amount;
      site.counts.promoted_bytes += amount / 2;
      LifetimeSums& lifetimes = site.counts.lifetimes;
      lifetimes.words[random() % lifetimes.words.size()] += amount;
      lifetimes.sum_seconds += amount;
      site.live_bytes = static_cast<int>(random() % 5000);
    }
    const SiteSeriesMap shown = top.update(sites);
    double growth_of_series = 0, growth_of_sites = 0;
    for (const auto& [site, before] : shown_before) {
      if (!shown.contains(site)) {  // another site took its place: `other` has its growth
        const SiteCounts& now = sites.at(site).counts;
        EXPECT_GE(now.allocated_bytes, before.counts.allocated_bytes);
        continue;
      }
      const SiteCounts& now = shown.at(site).counts;
      EXPECT_GE(now.allocated_bytes, before.counts.allocated_bytes);
      EXPECT_GE(now.promoted_bytes, before.counts.promoted_bytes);
      const LifetimeSums &after = now.lifetimes, &earlier = before.counts.lifetimes;
      EXPECT_GE(after.sum_seconds, earlier.sum_seconds);
      for (std::size_t i = 0; i < after.words.size(); ++i) {
        EXPECT_GE(after.words[i], earlier.words[i]);
      }
      growth_of_series += now.allocated_bytes - before.counts.allocated_bytes;
    }
    for (const auto& [site, now] : sites) {
      const bool started_named =
          shown.contains(site) && !shown_before.contains(site) && !sites_before.contains(site);
      if (started_named) continue;
      const auto before = sites_before.find(site);
      growth_of_sites += now.counts.allocated_bytes -
                         (before == sites_before.end() ? 0 : before->second.counts.allocated_bytes);
    }
    if (round > 0) {
      EXPECT_NEAR(growth_of_series, growth_of_sites, 1e-6);
    }
    shown_before = shown;
    sites_before = sites;
  }
  EXPECT_GT(shown_before.size(), 5 + 1u);  // some have moved out of `other`
  EXPECT_LE(shown_before.size(), 2 * 5 + 1u);
}

TEST(LifetimeSums, RollUpToBoundsWithoutSplitting) {
  EXPECT_DOUBLE_EQ(lifetime_bound_seconds(0), 1.024e-3);
  EXPECT_DOUBLE_EQ(lifetime_bound_seconds(7), 2147.483648);
  LifetimeHistogram histogram;
  histogram.add(1, 3, 3);                   // below every bound
  histogram.add(1'023'999, 4, 4);           // just below the first
  histogram.add(1'024'001, 5, 5);           // just above it
  histogram.add(2'147'483'640'000, 6, 6);   // just below the last
  histogram.add(90'000'000'000'000, 7, 7);  // above the last
  LifetimeSums lifetimes;
  lifetimes.add(histogram);
  EXPECT_EQ(lifetimes.words[0], 7u);
  EXPECT_EQ(lifetimes.words[1], 5u);
  EXPECT_EQ(lifetimes.words[7], 6u);
  EXPECT_EQ(lifetimes.words[8], 7u);
}

TEST(TopSites, ALimitSendsTheSmallestToOther) {
  TopSites top(2);
  SiteSeriesMap sites{{key("a"), total(100)}, {key("b"), total(300)}};
  top.update(sites);
  top.set_limit(1);
  sites[key("a")] = total(110);
  sites[key("b")] = total(310);
  SiteSeriesMap shown = top.update(sites);
  EXPECT_EQ(allocated(shown, key("a")), -1);
  EXPECT_EQ(allocated(shown, key("b")), 310);
  EXPECT_EQ(other(shown), 10) << "what its series has shown is not counted again";
  top.set_limit(0);
  shown = top.update(sites);
  EXPECT_EQ(shown.size(), 1u);
  EXPECT_EQ(other(shown), 10);
  top.set_limit(4);
  sites[key("b")] = total(320);
  shown = top.update(sites);
  EXPECT_EQ(allocated(shown, key("b")), 320);
}

}  // namespace
}  // namespace memprofd
