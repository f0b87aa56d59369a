// SPDX-License-Identifier: Apache-2.0
#include "daemon/rules/rule_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/profile_model.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

constexpr double kSampleBytes = 800;

// A major collection ends every minute. Function 1 retains one block per second, which the standard
// library allocates for it, function 2 frees
// its block after a second, function 3 allocates as much as both during the last minute.
class RuleCheckTest : public ::testing::Test {
 protected:
  RuleCheckTest() {
    auto symbolizer = std::make_shared<testing::ModelSymbolizer>();
    symbolizer->known[{1, -1}] = {
        {.function = "Stdlib__Hashtbl.add", .file = "hashtbl.ml", .line = 5},
        {.function = "Shop__Cache.add", .file = "cache.ml", .line = 7}};
    symbolizer->known[{2, -1}] = {{.function = "Request.make", .file = "request.ml", .line = 9}};
    recording_.symbolizer = symbolizer;
    recording_.collect_major();
    for (int second = 0; second < 600; ++second) {
      recording_.alloc(++id_, 1);
      recording_.alloc(++id_, 2);
      const std::uint64_t request = id_;
      if (second >= 540) {
        recording_.alloc(++id_, 3, 2);
        recording_.die(id_);
      }
      recording_.advance(kSecond);
      recording_.die(request, MEMPROF_DEALLOC_MAJOR);
      if (second % 60 == 59) recording_.collect_major();
    }
    snapshot_ = recording_.snapshot();
    snapshot_.info.sampling_rate = 0.01;
    snapshot_.info.mode = TargetMode::kAgent;
    snapshot_.gc.valid = true;
  }
  RuleOutcome check(const MemoryRule& rule, const RuleCheck& check = {}) const {
    return check_rule(snapshot_, rule, check);
  }
  void expect(RuleVerdict verdict, const MemoryRule& rule, const RuleCheck& how = {}) const {
    const RuleOutcome outcome = check(rule, how);
    EXPECT_EQ(outcome.verdict, verdict)
        << rule_text(rule, how.running) << ": " << outcome_text(outcome);
  }

  Recording recording_;
  std::uint64_t id_ = 0;
  ProfileSnapshot snapshot_;
};

TEST_F(RuleCheckTest, LiveBytesAreLimitedByTheLowerLimitOfTheEstimate) {
  const double live = 600 * kSampleBytes, error = std::sqrt(600 * 0.99) * kSampleBytes;
  const RuleOutcome outcome = check({.kind = RuleKind::kLive, .limit = live / 2});
  EXPECT_EQ(outcome.verdict, RuleVerdict::kBroken);
  EXPECT_NEAR(outcome.measured, live, 1);
  EXPECT_NEAR(outcome.measured_stderr, error, 1);
  EXPECT_NEAR(outcome.at_least, live - 3.09 * error, error / 5);
  EXPECT_THAT(outcome_text(outcome), HasSubstr("most of it: Shop__Cache.add  cache.ml:7"));
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kLive, .limit = live - 2.8 * error});
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kLive, .limit = live - 4.3 * error},
         {.chance = 1e-6});
}

TEST_F(RuleCheckTest, APatternOrAModuleSaysWhatCounts) {
  expect(RuleVerdict::kBroken, {.limit = 1000, .pattern = "Cache\\.add"});
  expect(RuleVerdict::kHolds, {.limit = 1000, .pattern = "Request"});
  expect(RuleVerdict::kBroken, {.limit = 1000, .module = "Cache"});
  expect(RuleVerdict::kBroken, {.limit = 1000, .module = "Shop__Cache"});
  expect(RuleVerdict::kHolds, {.limit = 1000, .module = "Ache"});
}

TEST_F(RuleCheckTest, AllocatedBytesPerIntervalAreThoseOfTheWorstOrOfTheLast) {
  const double usual = 120 * kSampleBytes, last = 2 * usual;
  const MemoryRule rule{.kind = RuleKind::kAllocated, .limit = usual * 1.4, .per_seconds = 60};
  expect(RuleVerdict::kBroken, rule);
  expect(RuleVerdict::kBroken, rule, {.running = true});
  EXPECT_NEAR(check(rule, {.running = true}).measured, last, 5 * kSampleBytes);
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kAllocated,
                               .limit = usual * 1.4,
                               .pattern = "Cache|Request",
                               .per_seconds = 60});
  expect(RuleVerdict::kBroken, {.kind = RuleKind::kAllocated, .limit = usual * 9});
  expect(RuleVerdict::kUnknown,
         {.kind = RuleKind::kAllocated, .limit = usual, .per_seconds = 0.001});
}

TEST_F(RuleCheckTest, GrowthIsThatOfWhatLeaks) {
  const RuleOutcome outcome = check({.kind = RuleKind::kGrowth, .limit = 0});
  EXPECT_EQ(outcome.verdict, RuleVerdict::kBroken) << outcome_text(outcome);
  EXPECT_THAT(outcome.largest_site, HasSubstr("Cache.add"));
  EXPECT_NEAR(outcome.measured, 450 * kSampleBytes, 65 * kSampleBytes) << "after a quarter of it";
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kGrowth, .limit = 0, .pattern = "Request"});
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kGrowth, .limit = 600 * kSampleBytes});
  const RuleOutcome hourly =
      check({.kind = RuleKind::kGrowth, .limit = 0, .per_seconds = 3600}, {.running = true});
  EXPECT_NEAR(hourly.measured, 3600 * kSampleBytes, 60 * kSampleBytes);
}

// Each of three steps may be higher than the previous one by chance.
TEST_F(RuleCheckTest, InFewStepsGrowthIsUnknownRatherThanNone) {
  Recording recording;
  recording.symbolizer = recording_.symbolizer;
  recording.collect_major();
  for (int second = 0; second < 8; ++second) {
    for (int i = 0; i < 100; ++i) recording.alloc(++id_, 1);
    recording.advance(kSecond);
    recording.collect_major();
  }
  snapshot_ = recording.snapshot();
  snapshot_.info.mode = TargetMode::kAgent;
  snapshot_.gc.valid = true;
  const RuleOutcome outcome = check({.kind = RuleKind::kGrowth, .limit = 0});
  EXPECT_EQ(outcome.verdict, RuleVerdict::kUnknown);
  EXPECT_THAT(outcome_text(outcome), HasSubstr("too few major collections have ended"));
}

TEST_F(RuleCheckTest, WithoutMajorCollectionsGrowthIsUnknown) {
  snapshot_.gc.valid = false;
  expect(RuleVerdict::kUnknown, {.kind = RuleKind::kGrowth, .limit = 0});
}

// Lifetimes are known by buckets that are 1.4 times as long as they begin at.
TEST_F(RuleCheckTest, LifetimesAreThoseOfNinetyNinePercent) {
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kLifetime, .limit = 1.1, .pattern = "Request"});
  expect(RuleVerdict::kBroken, {.kind = RuleKind::kLifetime, .limit = 0.5, .pattern = "Request"});
  expect(RuleVerdict::kBroken, {.kind = RuleKind::kLifetime, .limit = 30});
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kLifetime, .limit = 0, .pattern = "none"});
}

TEST_F(RuleCheckTest, AnAgeIsThatOfTheOldestBlock) {
  const RuleOutcome outcome = check({.kind = RuleKind::kAge, .limit = 300});
  EXPECT_EQ(outcome.verdict, RuleVerdict::kBroken);
  EXPECT_GE(outcome.measured, 600 / 1.42);
  EXPECT_LE(outcome.measured, 600);
  EXPECT_THAT(outcome_text(outcome), HasSubstr("the oldest: Shop__Cache.add"));
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kAge, .limit = 600});
  expect(RuleVerdict::kHolds, {.kind = RuleKind::kAge, .limit = 1, .pattern = "Request"});
}

TEST_F(RuleCheckTest, ObservedTargetsAreUnknownExceptForVolume) {
  snapshot_.info.mode = TargetMode::kObserve;
  expect(RuleVerdict::kUnknown, {.kind = RuleKind::kLive, .limit = 0});
  expect(RuleVerdict::kBroken, {.kind = RuleKind::kAllocated, .limit = 0});
}

TEST(RuleCheck, OneBlockThatIsKnownIsExactButForItsRounding) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  recording.alloc(1, 1, 1000, 1 << 17);
  recording.advance(kSecond);
  ProfileSnapshot snapshot = recording.snapshot();
  snapshot.info.mode = TargetMode::kAgent;
  snapshot.info.sampling_rate = 0.01;
  const RuleOutcome outcome =
      check_rule(snapshot, {.kind = RuleKind::kPeak, .limit = (1 << 20) - 600.0}, {});
  EXPECT_EQ(outcome.verdict, RuleVerdict::kBroken) << outcome_text(outcome);
  // Reported as 1002.5 words each, which is a step of the size's scale.
  for (int i = 0; i < 1000; ++i) recording.alloc(2 + i, 1, 1000, 5001);
  ProfileSnapshot more = recording.snapshot();
  more.info = snapshot.info;
  const double exact = (1 << 20) + 1000 * 5001 * 8.0;
  EXPECT_EQ(check_rule(more, {.kind = RuleKind::kAllocated, .limit = exact}, {}).verdict,
            RuleVerdict::kHolds);
}

TEST(RuleCheck, ALimitThatSamplesCannotTellIsUnknown) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  recording.advance(kSecond);
  ProfileSnapshot snapshot = recording.snapshot();
  snapshot.info.mode = TargetMode::kAgent;
  snapshot.info.sampling_rate = 1e-6;
  const RuleOutcome unknown =
      check_rule(snapshot, {.kind = RuleKind::kAllocated, .limit = 1 << 20}, {});
  EXPECT_EQ(unknown.verdict, RuleVerdict::kUnknown);
  EXPECT_EQ(outcome_text(unknown),
            "a sample stands for 7.63 MiB, too much for this limit; use --sampling-rate 8e-05");
  const RuleOutcome holds =
      check_rule(snapshot, {.kind = RuleKind::kAllocated, .limit = 1 << 23}, {});
  EXPECT_EQ(holds.verdict, RuleVerdict::kHolds);
  EXPECT_EQ(outcome_text(holds), "0 B, at most 22.9 MiB");
  EXPECT_EQ(check_rule(snapshot, {.kind = RuleKind::kLive, .limit = 0}, {}).verdict,
            RuleVerdict::kHolds)
      << "nothing may be live";
}

// It was 0 of some 10 MiB by chance.
TEST(RuleCheck, ABaselineWithoutSamplesIsNotZero) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  for (int i = 0; i < 130; ++i) recording.alloc(1 + i, 1);
  recording.advance(kSecond);
  ProfileSnapshot snapshot = recording.snapshot();
  snapshot.info.mode = TargetMode::kAgent;
  snapshot.info.sampling_rate = 0.01;
  MemoryRule rule{.kind = RuleKind::kAllocated, .from_baseline = true, .limit_grain = 5e5};
  EXPECT_EQ(check_rule(snapshot, rule, {}).verdict, RuleVerdict::kHolds);
  rule.limit_grain = 8e6;
  EXPECT_EQ(outcome_text(check_rule(snapshot, rule, {})),
            "a sample of the baseline stands for 7.63 MiB, too much to compare with it; use a "
            "higher --sampling-rate there");
  rule.limit_grain = 1e3;
  EXPECT_EQ(check_rule(snapshot, rule, {}).verdict, RuleVerdict::kBroken);
}

TEST(RuleCheck, ARunWithoutSamplesIsNotWithinItsBaseline) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  recording.advance(kSecond);
  ProfileSnapshot snapshot = recording.snapshot();
  snapshot.info.mode = TargetMode::kAgent;
  snapshot.info.sampling_rate = 1e-8;
  const MemoryRule rule{.kind = RuleKind::kAllocated,
                        .limit = 24e6,
                        .from_baseline = true,
                        .limit_stderr = 1e6,
                        .limit_grain = 8e4};
  EXPECT_THAT(outcome_text(check_rule(snapshot, rule, {})), HasSubstr("a sample of this run"));
  snapshot.info.sampling_rate = 1e-4;
  EXPECT_EQ(check_rule(snapshot, rule, {}).verdict, RuleVerdict::kHolds);
}

TEST(RuleCheck, QuantilesAreThoseOfTheNormalDistribution) {
  EXPECT_NEAR(quantile_of_chance(1e-3), 3.0902, 1e-4);
  EXPECT_NEAR(quantile_of_chance(1e-6), 4.7534, 1e-4);
  EXPECT_NEAR(quantile_of_chance(0.5), 0, 1e-4);
}

}  // namespace
}  // namespace memprofd
