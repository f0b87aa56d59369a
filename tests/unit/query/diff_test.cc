// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/kit/fake_profile.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::FakeProfile;

class DiffTest : public ::testing::Test {
 protected:
  DiffTest() {
    base_.profile.range = {0, 10'000'000'000};
    other_.profile.range = {10'000'000'000, 30'000'000'000};
    for (FakeProfile* side : {&base_, &other_}) {
      // Addresses differ from target to target.
      const std::uint64_t from = side == &base_ ? 0 : 100;
      side->name(from + 1, {.function = "A.a", .file = "a.ml", .line = 1});
      side->name(from + 2, {.function = "B.b", .file = "b.ml", .line = 2});
      side->name(from + 3, {.function = "C.c", .file = "c.ml", .line = 3});
      side->name(from + 9, {.function = "Main.m", .file = "m.ml", .line = 9});
    }
  }
  DiffResult diff(const DiffQuery& query) const {
    return memprofd::diff(base_.profile, other_.profile, query);
  }
  // "function base other change" of each, in samples.
  std::vector<std::string> lines(const DiffQuery& query) const {
    std::vector<std::string> result;
    for (const GroupDiff& pair : diff(query).diffs) {
      EXPECT_TRUE(pair.base.name() == pair.other.name());
      result.push_back(absl::StrCat(pair.base.location.function, " ",
                                    pair.base.counters.allocated.samples, " ",
                                    pair.other.counters.allocated.samples, " ", pair.change));
    }
    return result;
  }

  FakeProfile base_;
  FakeProfile other_;
};

TEST_F(DiffTest, OtherMinusBaseByName) {
  base_.add({1, 9}, 10);
  base_.add({1}, 5);
  base_.add({2}, 7);
  other_.add({101}, 20);
  other_.add({103, 109}, 100);
  EXPECT_THAT(lines({.order = Measure::kAllocated}),
              ElementsAre("C.c 0 100 800", "B.b 7 0 -56", "A.a 15 20 40"));
  const DiffResult result = diff({.order = Measure::kAllocated, .limit = 1});
  ASSERT_EQ(result.diffs.size(), 1u);
  EXPECT_EQ(result.n_groups, 3u);
  EXPECT_EQ(result.total.base.counters.allocated.samples, 22u);
  EXPECT_EQ(result.total.other.counters.allocated.samples, 120u);
  EXPECT_EQ(result.total.change, (120 - 22) * 8);
  EXPECT_DOUBLE_EQ(result.total.change_stderr, std::sqrt(120.0 + 22.0) * 8);
}

TEST_F(DiffTest, ErrorIsOfBothSides) {
  base_.add({1}, 9, 4);
  other_.add({101}, 16, 5);
  GroupDiff change = diff({.order = Measure::kAllocated}).diffs.at(0);
  EXPECT_EQ(change.change, 7 * 8);
  EXPECT_EQ(change.change_stderr, 5 * 8);
  change = diff({.order = Measure::kLive}).diffs.at(0);
  EXPECT_EQ(change.change, 8);
  EXPECT_EQ(change.change_stderr, 3 * 8);
  change = diff({.order = Measure::kSamples}).diffs.at(0);
  EXPECT_EQ(change.change, 7);
  EXPECT_EQ(change.change_stderr, 5);
  change = diff({.order = Measure::kAllocatedObjects}).diffs.at(0);
  EXPECT_DOUBLE_EQ(change.change, 7.0 / 8);
  EXPECT_DOUBLE_EQ(change.change_stderr, 5.0 / 8);
  EXPECT_EQ(diff({.order = Measure::kLifetime}).diffs.at(0).change_stderr, 0);
}

TEST_F(DiffTest, WhatHasNoSampleBeforeNeedNotBeNew) {
  base_.profile.unseen = other_.profile.unseen = {1, 1};
  other_.add({1}, 2);
  other_.add({2}, 20);
  const auto diffs = diff({.order = Measure::kAllocated}).diffs;
  ASSERT_EQ(diffs.size(), 2u);
  EXPECT_GT(diffs[0].change_limits.lower, 0) << "20 samples against none are no chance";
  EXPECT_LT(diffs[0].change_limits.lower, 20 * 8 - 3 * 8) << "there may have been 3";
  EXPECT_EQ(diffs[1].change, 2 * 8);
  EXPECT_LT(diffs[1].change_limits.lower, 0);
  EXPECT_NEAR(diffs[1].change_limits.upper, 6.65 * 8, 1) << "more than 2 there cannot be less";
  EXPECT_EQ(diff({.order = Measure::kLifetime}).diffs.at(0).change_limits, Limits());
}

TEST_F(DiffTest, PerSecondOfEachRange) {
  base_.add({1}, 9, 9);
  other_.add({101}, 16, 16);
  const auto change = [&](Measure measure) {
    return diff({.order = measure, .per_second = true}).diffs.at(0).change;
  };
  EXPECT_DOUBLE_EQ(change(Measure::kAllocated), 16 * 8 / 20.0 - 9 * 8 / 10.0);
  EXPECT_DOUBLE_EQ(change(Measure::kSamples), 16 / 20.0 - 9 / 10.0);
  EXPECT_EQ(change(Measure::kLive), 7 * 8) << "what is live is not per second";
  EXPECT_DOUBLE_EQ(change(Measure::kLiveObjects), 7 / 8.0);
  const DiffResult result = diff({.order = Measure::kAllocated, .per_second = true});
  EXPECT_DOUBLE_EQ(result.diffs[0].change_stderr, std::hypot(4 * 8 / 20.0, 3 * 8 / 10.0));
  EXPECT_EQ(result.diffs[0].other.counters.allocated.samples, 16u) << "counts stay";
  EXPECT_DOUBLE_EQ(result.total.change, result.diffs[0].change);
}

TEST_F(DiffTest, ARangeWithoutLengthHasNoRate) {
  base_.profile.range = {5, 5};
  base_.add({1}, 9);
  other_.add({101}, 20);
  EXPECT_DOUBLE_EQ(diff({.order = Measure::kAllocated, .per_second = true}).diffs.at(0).change, 8);
}

TEST_F(DiffTest, TiesAreOrderedByName) {
  base_.add({3}, 4);
  other_.add({102}, 4);
  base_.add({1}, 1);
  other_.add({101}, 5);
  EXPECT_THAT(lines({.order = Measure::kAllocated}),
              ElementsAre("A.a 1 5 32", "B.b 0 4 32", "C.c 4 0 -32"));
}

TEST_F(DiffTest, CallstacksAreOfTheirSide) {
  base_.add({1}, 4);
  other_.add({101, 109}, 4);
  GroupDiff pair = diff({}).diffs.at(0);
  EXPECT_EQ(pair.base.callstack.size(), 1u);
  ASSERT_EQ(pair.other.callstack.size(), 2u);
  EXPECT_EQ(pair.other.callstack[1].function, "Main.m");
  pair = diff({.with_callstack = false}).diffs.at(0);
  EXPECT_TRUE(pair.base.callstack.empty());
  EXPECT_TRUE(pair.other.callstack.empty());
}

TEST_F(DiffTest, OtherGroupings) {
  base_.add({1, 9}, 1);
  base_.add({2, 9}, 2);
  other_.add({101, 109}, 3);
  other_.add({102}, 4);
  EXPECT_THAT(lines({.group_by = GroupBy::kLibrary, .order = Measure::kAllocated}),
              ElementsAre(" 3 7 32"));
  const DiffResult stacks = diff({.group_by = GroupBy::kCallstack, .order = Measure::kAllocated});
  ASSERT_EQ(stacks.diffs.size(), 3u);
  EXPECT_EQ(stacks.diffs[0].other.path.size(), 1u);
  EXPECT_EQ(stacks.diffs[0].base.callstack.size(), 1u) << "its name, though not in base";
  EXPECT_EQ(stacks.diffs[0].change, 32);
}

TEST_F(DiffTest, NothingAndNothing) {
  const DiffResult result = diff({});
  EXPECT_TRUE(result.diffs.empty());
  EXPECT_EQ(result.total.change, 0);
  EXPECT_EQ(result.total.change_stderr, 0);
}

}  // namespace
}  // namespace memprofd
