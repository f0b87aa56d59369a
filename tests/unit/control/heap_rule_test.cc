// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/heap_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memprofd {
namespace {

using ::testing::HasSubstr;

HeapRule rule(const std::string& text) { return *parse_heap_rule(text); }

HeapMoment live(double bytes) { return {.live_bytes = bytes}; }

HeapMoment at(int day, int hour, int minute) {
  HeapMoment moment;
  moment.time.tm_yday = day;
  moment.time.tm_hour = hour;
  moment.time.tm_min = minute;
  return moment;
}

TEST(HeapRule, IsReadAsItIsWritten) {
  EXPECT_EQ(HeapRule::Kind::kAbove, rule("live>2GiB").kind);
  EXPECT_EQ(2.0 * (1u << 30), rule("live>2GiB").bytes);
  EXPECT_EQ(HeapRule::Kind::kGrown, rule("live+500MiB").kind);
  EXPECT_EQ(100u, rule("majors=100").count);
  EXPECT_EQ(3, rule("at=03:59").hour);
  EXPECT_EQ(59, rule("at=03:59").minute);
  EXPECT_EQ(HeapRule::Kind::kPoint, rule("point").kind);
  EXPECT_EQ(HeapRule::Kind::kEnd, rule("end").kind);
}

TEST(HeapRule, AnythingElseIsRefusedWithWhatCanBeWritten) {
  for (const char* text :
       {"", "live", "live>", "live>0", "live<2GiB", "live>x", "majors=0", "majors=-1",
        "majors=", "at=24:00", "at=3:00", "at=03:60", "at=", "ends"}) {
    const auto parsed = parse_heap_rule(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("write live>2GiB"));
  }
}

TEST(HeapRule, AboveIsDueOnceUntilItHasBeenBelow) {
  const HeapRule above = rule("live>1000");
  HeapRuleState state(above);
  EXPECT_FALSE(state.is_due(live(1000)));
  EXPECT_TRUE(state.is_due(live(1001)));
  EXPECT_TRUE(state.is_due(live(1001))) << "it was refused";
  state.taken();
  EXPECT_FALSE(state.is_due(live(5000)));
  EXPECT_FALSE(state.is_due(live(10)));
  EXPECT_TRUE(state.is_due(live(1001)));
}

TEST(HeapRule, GrowthIsSinceTheOneBefore) {
  const HeapRule grown = rule("live+1000");
  HeapRuleState state(grown);
  EXPECT_FALSE(state.is_due(live(5000)));
  EXPECT_FALSE(state.is_due(live(5999)));
  EXPECT_TRUE(state.is_due(live(6000)));
  state.taken();
  EXPECT_FALSE(state.is_due(live(6999)));
  EXPECT_TRUE(state.is_due(live(7000)));
}

TEST(HeapRule, MajorCollectionsAreCountedWhereTheyAreKnown) {
  const HeapRule majors = rule("majors=10");
  HeapRuleState state(majors);
  EXPECT_FALSE(state.is_due({}));
  EXPECT_FALSE(state.is_due({.major_collections = 90}));
  EXPECT_FALSE(state.is_due({.major_collections = 99}));
  EXPECT_TRUE(state.is_due({.major_collections = 101}));
  state.taken();
  EXPECT_FALSE(state.is_due({.major_collections = 110}));
  EXPECT_TRUE(state.is_due({.major_collections = 111}));
}

TEST(HeapRule, ATimeComesOnceADay) {
  const HeapRule daily = rule("at=03:00");
  HeapRuleState state(daily);
  EXPECT_FALSE(state.is_due(at(7, 2, 59)));
  EXPECT_TRUE(state.is_due(at(7, 3, 0)));
  state.taken();
  EXPECT_FALSE(state.is_due(at(7, 3, 0)));
  EXPECT_FALSE(state.is_due(at(7, 3, 1)));
  EXPECT_TRUE(state.is_due(at(8, 3, 0)));
}

}  // namespace
}  // namespace memprofd
