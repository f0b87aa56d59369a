// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/stack_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "daemon/export/formats/rounding.h"
#include "tests/kit/profile_model.h"

namespace memprofd {
namespace {

using testing::ProfileModel;
using testing::run;
using Names = std::vector<std::string>;

Names from_root(const StackTable& table, std::uint32_t stack) {
  Names result;
  for (const std::uint32_t id : table.from_root(stack)) {
    result.push_back(table.locations()[id]->function);
  }
  return result;
}

// The worked example at the head of stack_table.h.
TEST(StackTableTest, WorkedExample) {
  ProfileModel model;
  model.name(2, {{.function = "g"}, {.function = "f"}});
  model.add({1, run(2), 2}, 1);
  model.add({3, 2}, 1);
  model.hide({"f3"});
  const StackTable table({model.profile});
  EXPECT_EQ(table.locations().size(), 3u);
  ASSERT_EQ(table.frames().size(), 2u);
  EXPECT_EQ(table.frames()[1].address, 2u);
  EXPECT_EQ(table.frames()[1].locations, (std::vector<std::uint32_t>{1, 2}));
  ASSERT_EQ(table.stacks().size(), 2u);
  EXPECT_EQ(from_root(table, table.stack_of(0, 0)), (Names{"f", "g", "f1", "f1", "f1"}));
  EXPECT_EQ(from_root(table, table.stack_of(0, 1)), (Names{"f", "g"}));
}

TEST(StackTableTest, CallstacksThatLookTheSameAreOne) {
  ProfileModel model;
  model.add({1, 2}, 10);
  model.add({9, 1, 2}, 5);
  model.add({1, 2}, 1);
  model.hide({"f9"});
  const std::vector<TargetProfile> profiles{model.profile};
  const StackTable table(profiles);
  ASSERT_EQ(table.stacks().size(), 1u);
  EXPECT_EQ(counters_by_stack(profiles, table).at(0).allocated.samples, 16u);
}

TEST(StackTableTest, TargetsShareLocationsButNotFrames) {
  ProfileModel one(1), two(2);
  one.add({7}, 1);
  two.add({7}, 1);
  two.add({}, 1);
  const StackTable table({one.profile, two.profile});
  EXPECT_EQ(table.locations().size(), 2u);
  EXPECT_EQ(table.frames().size(), 3u);
  EXPECT_EQ(table.target_of(table.stack_of(0, 0)), 0u);
  EXPECT_EQ(table.target_of(table.stack_of(1, 0)), 1u);
  EXPECT_EQ(table.target_of(table.stack_of(1, 1)), 1u);
  EXPECT_EQ(from_root(table, table.stack_of(1, 1)), (Names{"(unknown)"}));
}

TEST(StackTableTest, NamesBecomeUtf8) {
  ProfileModel model;
  model.name(1, {{.function = "a\xff", .file = "\xc3", .library = "\x80"}});
  model.add({1}, 1);
  const StackTable table({model.profile});
  EXPECT_EQ(table.locations()[0]->function, "a\xEF\xBF\xBD");
  EXPECT_EQ(table.locations()[0]->file, "\xEF\xBF\xBD");
  EXPECT_EQ(table.locations()[0]->library, "\xEF\xBF\xBD");
}

TEST(StackTableTest, RecursionIsShortenedBeforeOuterFramesAreCut) {
  ProfileModel model;
  model.add({1, 2, run(0xffffffff), 3, run(40), 4}, 1);
  const StackTable table({model.profile}, {.of_a_stack = 1000});
  const Names names = from_root(table, 0);
  EXPECT_LE(names.size(), 1000u);
  EXPECT_GE(names.size(), 300u);
  EXPECT_EQ(names.front(), "f4");
  EXPECT_EQ(names.back(), "f1");
  EXPECT_EQ(std::count(names.begin(), names.end(), "f3"), 41);
}

TEST(StackTableTest, StackWithoutRecursionLosesOuterFrames) {
  ProfileModel model;
  std::vector<std::uint64_t> entries(50);
  std::iota(entries.begin(), entries.end(), 1);
  model.add(entries, 1);
  const StackTable table({model.profile}, {.of_a_stack = 10});
  const Names names = from_root(table, 0);
  ASSERT_EQ(names.size(), 10u);
  EXPECT_EQ(names.back(), "f1");
  EXPECT_EQ(names.front(), "f10");
}

TEST(StackTableTest, TheSiteStaysWhateverTheLimit) {
  ProfileModel model;
  model.name(1, {{.function = "a"}, {.function = "b"}, {.function = "c"}});
  model.add({1, 2}, 1);
  const StackTable table({model.profile}, {.of_a_stack = 1});
  EXPECT_EQ(from_root(table, 0), (Names{"c", "b", "a"}));
}

TEST(StackTableTest, AllStacksTogetherAreLimitedToo) {
  ProfileModel model;
  for (std::uint32_t depth = 1; depth <= 1000; ++depth) model.add({1, 2, run(depth), 3}, 1);
  const StackTable table({model.profile}, {.in_all = 50'000});
  std::size_t all = 0;
  for (std::uint32_t stack = 0; stack < table.stacks().size(); ++stack) {
    const Names names = from_root(table, stack);
    EXPECT_EQ(names.front(), "f3");
    EXPECT_EQ(names.back(), "f1");
    all += names.size();
  }
  EXPECT_LE(all, 50'000u);
  EXPECT_GE(all, 20'000u);
}

// ---------------------------------------------------------------- rounding

using Whole = std::vector<std::int64_t>;

TEST(RoundingTest, SumIsTheRoundedSum) {
  EXPECT_EQ(round_keeping_sum({0.4, 0.4, 0.4}), (Whole{1, 0, 0}));
  EXPECT_EQ(round_keeping_sum({1.5, 2.25, 3.25}), (Whole{2, 2, 3}));
  EXPECT_EQ(round_keeping_sum({0.2, 0.2}), (Whole{0, 0}));
  EXPECT_EQ(round_keeping_sum({}), Whole{});
}

TEST(RoundingTest, WholeNumbersStay) {
  EXPECT_EQ(round_keeping_sum({3, 0, 12345678901.0}), (Whole{3, 0, 12345678901}));
}

TEST(RoundingTest, NoValueIsOneOff) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0, 5);
  std::vector<double> values(10'000);
  double sum = 0;
  for (double& value : values) sum += value = uniform(random);
  const Whole rounded = round_keeping_sum(values);
  std::int64_t rounded_sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_LT(std::abs(static_cast<double>(rounded[i]) - values[i]), 1);
    rounded_sum += rounded[i];
  }
  EXPECT_LE(std::abs(static_cast<double>(rounded_sum) - sum), 0.5 + 1e-6);
}

TEST(RoundingTest, OddValues) {
  EXPECT_EQ(round_keeping_sum({-1, std::nan(""), 1e300, 0.5}),
            (Whole{0, 0, std::int64_t{1} << 53, 1}));
}

}  // namespace
}  // namespace memprofd
