// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/fake_questions.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::add_callstack;
using memprofd::testing::FakeQuestions;
using memprofd::testing::fixed_target;
using memprofd::testing::location;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

TopViewState view_of(int pid) {
  TopViewState view_state;
  view_state.pid = pid;
  return view_state;
}

TopViewState drilled_into(const TopViewState& view_state, const pb::Site& group) {
  TopViewState drilled = view_state;
  drilled.view = TopView::kCallstacks;
  drilled.drilled = group;
  return drilled;
}

TEST(TopQuestion, RangeIsTheWindowUpToTheTime) {
  TopViewState view_state = view_of(7);
  EXPECT_EQ(sites_request(view_state).range().last_seconds(), 60);
  EXPECT_EQ(sites_request(view_state).range().end_unix_ns(), 0);
  view_state.window_seconds = 0;
  view_state.until_ns = 5 * kSecond;
  for (const pb::TimeRange& range :
       {sites_request(view_state).range(), program_request(view_state).range(),
        history_request(view_state).selection().range()}) {
    EXPECT_EQ(range.last_seconds(), 0);
    EXPECT_EQ(range.begin_unix_ns(), 0);
    EXPECT_EQ(range.end_unix_ns(), 5 * kSecond);
  }
}

TEST(TopQuestion, TheProgramIsAskedForWithoutFilter) {
  TopViewState view_state = view_of(7);
  view_state.filter.set_pattern("nothing");
  EXPECT_EQ(program_request(view_state).filter().ByteSizeLong(), 0u);
  EXPECT_EQ(sites_request(view_state).filter().pattern(), "nothing");
  EXPECT_EQ(history_request(view_state).selection().filter().pattern(), "nothing");
}

TEST(TopQuestion, SparklinesAreOfAMeasureThatHasAHistory) {
  EXPECT_EQ(sparkline_measure(pb::MEASURE_LIFETIME), pb::MEASURE_LIVE);
  EXPECT_EQ(sparkline_measure(pb::MEASURE_UNSPECIFIED), pb::MEASURE_LIVE);
  EXPECT_EQ(sparkline_measure(pb::MEASURE_PROMOTED), pb::MEASURE_PROMOTED);
  FakeQuestions questions;
  for (int order = 0; order <= pb::Measure_MAX; ++order) {
    TopViewState view_state = view_of(4242);
    view_state.order = static_cast<pb::Measure>(order);
    EXPECT_TRUE(ask_top(questions, view_state).status.ok()) << order;
  }
}

TEST(TopQuestion, AsksForTargetsOnly) {
  FakeQuestions questions({fixed_target(7), fixed_target(9)});
  TopViewState view_state;
  view_state.view = TopView::kTargets;
  const TopAnswer answer = ask_top(questions, view_state);
  EXPECT_EQ(answer.targets.targets_size(), 2);
  EXPECT_EQ(answer.sites.sites_size(), 0);
}

TEST(TopQuestion, SaysWhatTheDaemonSays) {
  FakeQuestions questions;
  EXPECT_EQ(ask_top(questions, view_of(1)).status.code(), absl::StatusCode::kNotFound);
  TopViewState bad = view_of(4242);
  bad.filter.set_pattern("(");
  EXPECT_EQ(ask_top(questions, bad).status.code(), absl::StatusCode::kInvalidArgument);
}

// The callstacks of a group are all of it and nothing else.
TEST(TopQuestion, DrillsIntoGroupsOfEveryKind) {
  auto target = fixed_target();
  add_callstack(*target, {1, 3, 5}, {.allocated = 30, .live = 30});
  add_callstack(*target, {6, 1}, {.allocated = 5, .live = 5});
  auto symbolizer = memprofd::testing::fixed_symbolizer();
  symbolizer->table[6] = location("Sessions.remember", "bin/other.ml", 27);
  symbolizer->table[7] = location("f(*)+\\d[", "bin/se ssions.ml", 1);
  target->symbolizer = symbolizer;
  add_callstack(*target, {7, 1}, {.allocated = 9, .live = 9});
  FakeQuestions questions({target});
  for (int by = 1; by <= pb::GroupBy_MAX; ++by) {
    TopViewState view_state = view_of(4242);
    view_state.window_seconds = 0;
    view_state.group_by = static_cast<pb::GroupBy>(by);
    const TopAnswer groups = ask_top(questions, view_state);
    ASSERT_TRUE(groups.status.ok());
    ASSERT_GT(groups.sites.sites_size(), 0);
    for (const pb::Site& group : groups.sites.sites()) {
      const TopAnswer answer = ask_top(questions, drilled_into(view_state, group));
      ASSERT_TRUE(answer.status.ok()) << answer.status;
      double live = 0;
      for (const pb::Site& callstack : answer.sites.sites()) live += callstack.live().bytes();
      EXPECT_DOUBLE_EQ(live, group.live().bytes()) << by << " " << group.ShortDebugString();
    }
  }
}

TEST(TopQuestion, DrillsWithinTheFilter) {
  FakeQuestions questions;
  TopViewState view_state = view_of(4242);
  view_state.filter.set_pattern("Sessions|Cache");
  view_state.filter.add_forbid("nobody");
  const TopAnswer sites = ask_top(questions, view_state);
  ASSERT_EQ(sites.sites.sites_size(), 2);
  const TopAnswer answer = ask_top(questions, drilled_into(view_state, sites.sites.sites(1)));
  ASSERT_EQ(answer.sites.sites_size(), 1);
  EXPECT_EQ(answer.sites.sites(0).callstack(0).function(), "Cache.fill");
  EXPECT_EQ(answer.sites.sites(0).callstack_size(), 3);
  const pb::ListSitesRequest asked = sites_request(answer.view_state);
  EXPECT_EQ(asked.filter().pattern(), "Sessions|Cache");
  EXPECT_THAT(asked.filter().require(), ElementsAre("^bin\\/cache\\.ml:58$"));
}

TEST(TopQuestion, NamesThatNoPatternCanBeMadeOfAreFoundAllTheSame) {
  auto target = fixed_target();
  auto symbolizer = memprofd::testing::fixed_symbolizer();
  symbolizer->table[8] = location("caf\xE9", "bin/x.ml", 1);
  symbolizer->table[9] = location(std::string(3000, 'x'), "bin/x.ml", 2);
  target->symbolizer = symbolizer;
  add_callstack(*target, {8, 5}, {.allocated = 4, .live = 4});
  add_callstack(*target, {9, 5}, {.allocated = 3, .live = 3});
  FakeQuestions questions({target});
  const TopAnswer sites = ask_top(questions, view_of(4242));
  int found = 0;
  for (const pb::Site& site : sites.sites.sites()) {
    if (site.file() != "bin/x.ml") continue;
    const TopAnswer answer = ask_top(questions, drilled_into(sites.view_state, site));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    ASSERT_EQ(answer.sites.sites_size(), 1);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST(TopQuestion, KeysTellGroupsApart) {
  pb::Site a, b;
  a.set_function("f");
  a.set_line(1);
  b = a;
  b.mutable_live()->set_bytes(7);
  EXPECT_EQ(group_key(a, pb::GROUP_BY_SITE), group_key(b, pb::GROUP_BY_SITE));
  b.add_callstack()->set_function("g");
  EXPECT_EQ(group_key(a, pb::GROUP_BY_SITE), group_key(b, pb::GROUP_BY_SITE));
  EXPECT_NE(group_key(a, pb::GROUP_BY_CALLSTACK), group_key(b, pb::GROUP_BY_CALLSTACK));
  b.set_line(2);
  EXPECT_NE(group_key(a, pb::GROUP_BY_SITE), group_key(b, pb::GROUP_BY_SITE));
}

}  // namespace
}  // namespace memprofd::ctl
