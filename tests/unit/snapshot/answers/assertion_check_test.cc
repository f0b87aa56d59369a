// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/assertion_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

using testing::HasSubstr;
using Until = AssertionMark::Until;

constexpr double kQuantile = 3.09;

class AssertionCheck : public testing::Test {
 protected:
  AssertionCheck() {
    kept_ = builder_.string(4);
    lost_ = builder_.string(4);
    builder_.global("Cache", 2, kept_);
  }
  std::uint32_t assertion(AssertionKind kind, const std::string& name) {
    builder_.image().assertions.push_back({.kind = kind, .name = name});
    return static_cast<std::uint32_t>(builder_.image().assertions.size() - 1);
  }
  HeapAssertion& last() { return builder_.image().assertions.back(); }
  void mark(std::uint32_t assertion, std::uint32_t block, Until until = Until::kNow,
            std::uint32_t other = 0) {
    builder_.image().marks.push_back(
        {.assertion = assertion, .block = block, .until = until, .other = other});
  }
  std::vector<AssertionOutcome> check() {
    const HeapImage image = builder_.build();
    return check_assertions(image, ShortestPaths(image), kQuantile);
  }
  AssertionOutcome only() {
    auto outcomes = check();
    EXPECT_EQ(1u, outcomes.size());
    return outcomes.empty() ? AssertionOutcome() : outcomes[0];
  }

  ImageBuilder builder_;
  std::uint32_t kept_ = 0, lost_ = 0;
};

TEST_F(AssertionCheck, AReachableValueViolatesAndItsPathIsNamed) {
  const std::uint32_t session = assertion(AssertionKind::kUnreachable, "session");
  mark(session, kept_);
  mark(session, lost_);
  const AssertionOutcome outcome = only();
  EXPECT_EQ(AssertionVerdict::kViolated, outcome.verdict);
  EXPECT_EQ(1u, outcome.violating);
  ASSERT_EQ(1u, outcome.holders.size());
  EXPECT_EQ(1u, outcome.holders[0].values);
  EXPECT_THAT(outcome.holders[0].path, HasSubstr("global Cache, field 2"));
  EXPECT_EQ("session is unreachable", assertion_text(outcome.assertion));
  EXPECT_THAT(outcome_text(outcome), HasSubstr("1 value is reachable; 1 by global Cache, field 2"));
}

TEST_F(AssertionCheck, GarbageViolatesNothing) {
  mark(assertion(AssertionKind::kUnreachable, "session"), lost_);
  EXPECT_EQ(AssertionVerdict::kHolds, only().verdict);
}

TEST_F(AssertionCheck, AValueMayLiveAsLongAsTheOtherOne) {
  for (const auto& [until, other, verdict] :
       std::vector<std::tuple<Until, std::uint32_t, AssertionVerdict>>{
           {Until::kOther, kept_, AssertionVerdict::kHolds},
           {Until::kOther, lost_, AssertionVerdict::kViolated},
           {Until::kOtherIsGone, 0, AssertionVerdict::kViolated},
           {Until::kForever, 0, AssertionVerdict::kHolds}}) {
    builder_.image().assertions.clear();
    builder_.image().marks.clear();
    mark(assertion(AssertionKind::kDiesBefore, "buffer"), kept_, until, other);
    const AssertionOutcome outcome = only();
    EXPECT_EQ(verdict, outcome.verdict) << static_cast<int>(until);
    if (verdict == AssertionVerdict::kViolated) {
      EXPECT_THAT(outcome_text(outcome), HasSubstr("1 value is reachable after the other died"));
    }
  }
}

TEST_F(AssertionCheck, UnknownValuesAreNotChecked) {
  assertion(AssertionKind::kUnreachable, "constant");
  last().unchecked = 2;
  assertion(AssertionKind::kUnreachable, "torn");
  last().is_whole = false;
  assertion(AssertionKind::kUnreachable, "later");
  last().not_due = 1;
  mark(assertion(AssertionKind::kUnreachable, "partly"), kept_);
  last().unchecked = 2;
  const auto outcomes = check();
  EXPECT_EQ(AssertionVerdict::kNotChecked, outcomes[0].verdict);
  EXPECT_THAT(outcome_text(outcomes[0]), HasSubstr("not checked: 2 marked values are not blocks"));
  EXPECT_EQ(AssertionVerdict::kNotChecked, outcomes[1].verdict);
  EXPECT_EQ(AssertionVerdict::kHolds, outcomes[2].verdict);
  EXPECT_THAT(outcome_text(outcomes[2]), HasSubstr("not checked yet: 1 value that is not due"));
  EXPECT_EQ(AssertionVerdict::kViolated, outcomes[3].verdict) << "one is enough";
}

TEST_F(AssertionCheck, ARegionCountsWhatIsLeftOfItsRun) {
  const std::uint32_t site = builder_.site({{.function = "Load.all"}});
  const std::uint32_t large = builder_.string(2'000'000), before = builder_.string(2'000'000);
  builder_.global("Load", 0, large);
  builder_.global("Old", 0, before);
  builder_.sample(large, 20'000, site, 1, 5'000'000);
  builder_.sample(before, 20'000, site, 2, 50'000'000);
  builder_.sample(lost_, 1, site, 3, 5'000'000);
  assertion(AssertionKind::kRegion, "load");
  last().begin_age_ns = 9'000'000;
  last().end_age_ns = 1'000'000;
  last().max_bytes = 15'000'000;
  const AssertionOutcome broken = only();
  EXPECT_EQ(AssertionVerdict::kViolated, broken.verdict);
  EXPECT_EQ(1u, broken.violating);
  EXPECT_GT(broken.at_least, 15e6);
  EXPECT_THAT(outcome_text(broken), HasSubstr("by global Load, field 0"));
  last().max_bytes = 17'000'000;
  EXPECT_EQ(AssertionVerdict::kHolds, only().verdict);
  last().is_whole = false;
  EXPECT_EQ(AssertionVerdict::kNotChecked, only().verdict);
}

TEST_F(AssertionCheck, AnImageWithoutAssertionsHasNoOutcomes) { EXPECT_TRUE(check().empty()); }

}  // namespace
}  // namespace memprofd
