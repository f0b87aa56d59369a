// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/past_values.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kBegin = 1'700'000'000 * kSecond;
using Kind = ValueLine::Kind;

class PastValuesTest : public ::testing::Test {
 protected:
  void note(int second, std::vector<ValueLine> lines) {
    for (ValueLine& line : lines) {
      line.number = next_line_++;
      line.time_ns = at(second);
    }
    history_.note({.time_ns = at(second),
                   .numbers = {{{.kind = ValueSeries::Kind::kPoint,
                                 .name = "requests",
                                 .labels = {{"route", "/a"}}},
                                2.0 * second},
                               {{.kind = ValueSeries::Kind::kValue,
                                 .quantity = ValueQuantity::kNumber,
                                 .name = "queue"},
                                5.0}},
                   .lines = std::move(lines)});
  }
  PastValues ask(TimeRange range, const PastValuesQuery& query = {}) {
    ProfileSnapshot target;
    target.time_ns = at(100);
    target.attached_ns = kBegin;
    target.values = history_.view();
    auto past = past_values(target, range, query);
    EXPECT_TRUE(past.ok()) << past.status();
    return past.ok() ? *past : PastValues();
  }
  static std::uint64_t at(int second) { return kBegin + second * kSecond; }

  ValueHistory history_;
  std::uint64_t next_line_ = 0;
};

TEST_F(PastValuesTest, HasNumbersAndLinesOfARange) {
  for (int second = 0; second < 60; ++second) note(second, {{.text = "tick"}});
  const PastValues past = ask({at(10), at(20) + 1});
  ASSERT_EQ(past.times_ns.size(), 10u);
  EXPECT_EQ(past.times_ns.back(), at(20));
  ASSERT_EQ(past.series.size(), 2u);
  EXPECT_EQ(past.series[0].series->full_name(), "requests{route=/a}");
  EXPECT_EQ(past.series[0].lasts.back(), 40);
  EXPECT_EQ(past.series[0].lows.back(), 40);
  EXPECT_EQ(past.lines.size(), 11u);
  EXPECT_EQ(ask({}).times_ns.back(), at(59));
  EXPECT_EQ(ask({}, {.points = 5}).times_ns.size(), 5u);
}

TEST_F(PastValuesTest, FindsNamesWithTheirLabels) {
  note(0, {});
  note(1, {});
  const PastValues past = ask({}, {.pattern = "route=/a"});
  ASSERT_EQ(past.series.size(), 1u);
  EXPECT_EQ(past.series[0].series->name, "requests");
  EXPECT_TRUE(ask({}, {.pattern = "nothing"}).series.empty());
  EXPECT_EQ(past_values(ProfileSnapshot(), {}, {.pattern = "("}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(past_values(ProfileSnapshot(), {}, {})->series.empty());
}

TEST_F(PastValuesTest, PhasesAreSpans) {
  note(1, {{.kind = Kind::kPhaseEnds, .text = "before"}});
  note(2, {{.kind = Kind::kPhaseBegins, .text = "load"}, {.text = "a line"}});
  note(3, {{.kind = Kind::kPhaseBegins, .text = "load"}});
  note(4, {{.kind = Kind::kPhaseEnds, .text = "load"}});
  note(5, {{.kind = Kind::kPhaseEnds, .text = "load"}});
  note(6, {{.kind = Kind::kPhaseBegins, .text = "serve"}});
  const PastValues past = ask({});
  ASSERT_EQ(past.phases.size(), 3u);
  EXPECT_EQ(past.phases[0].name, "before");
  EXPECT_EQ(past.phases[0].begin_ns, 0u);
  EXPECT_EQ(past.phases[0].end_ns, at(1));
  EXPECT_EQ(past.phases[1].name, "load");
  EXPECT_EQ(past.phases[1].begin_ns, at(2));
  EXPECT_EQ(past.phases[1].end_ns, at(5));
  EXPECT_EQ(past.phases[2].name, "serve");
  EXPECT_EQ(past.phases[2].end_ns, 0u);
  ASSERT_EQ(ask({at(5), at(6)}).phases.size(), 0u);
  ASSERT_EQ(ask({at(3), at(4)}).phases.size(), 1u);
}

TEST_F(PastValuesTest, OfTooManyPhasesTheLastOnesAreTold) {
  for (int second = 0; second < 1500; ++second) {
    note(second,
         {{.kind = Kind::kPhaseBegins, .text = "p"}, {.kind = Kind::kPhaseEnds, .text = "p"}});
  }
  const PastValues past = ask({kBegin - 1, at(1500)});
  EXPECT_EQ(past.phases.size(), PastValues::kMaxPhases);
  EXPECT_EQ(past.left_out_phases, 500u);
  EXPECT_EQ(past.phases.back().end_ns, at(1499));
}

}  // namespace
}  // namespace memprofd
