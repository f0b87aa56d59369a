// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/query_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace memprofd::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 1'700'000'000 * kSecond;

// A command with every option.
class QueryOptionsTest : public ::testing::Test {
 protected:
  QueryOptionsTest() {
    add_target(app_, options_);
    add_range(app_, options_);
    add_filter(app_, options_, true);
    add_grouping(app_, options_);
    add_order(app_, options_);
  }
  // Called once for each test.
  bool parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(words));
      return true;
    } catch (const CLI::ParseError&) {
      return false;
    }
  }
  pb::Filter filter() const {
    const auto filter = filter_of(options_, pb::FRAMES_UNSPECIFIED);
    EXPECT_TRUE(filter.ok()) << filter.status();
    return filter.ok() ? *filter : pb::Filter();
  }
  SelectionSpec selection() const {
    const auto selection = selection_of(options_, kNow);
    EXPECT_TRUE(selection.ok()) << selection.status();
    return selection.ok() ? *selection : SelectionSpec();
  }

  CLI::App app_;
  QueryOptions options_;
};

TEST_F(QueryOptionsTest, NothingGivenIsEverything) {
  ASSERT_TRUE(parse({}));
  EXPECT_EQ(filter().ByteSizeLong(), 0u);
  EXPECT_EQ(selection().target.pid, 0);
  EXPECT_EQ(selection().range.ByteSizeLong(), 0u);
  EXPECT_EQ(options_.group_by, pb::GROUP_BY_SITE);
  EXPECT_EQ(options_.order, pb::MEASURE_LIVE);
  EXPECT_EQ(options_.limit, -1);
}

TEST_F(QueryOptionsTest, EveryFilter) {
  ASSERT_TRUE(parse({"--match",
                     "^Cache",
                     "--require",
                     "a",
                     "--require",
                     "b,c",
                     "--forbid",
                     "d",
                     "--hide",
                     "e",
                     "--min-size",
                     "1KiB",
                     "--max-size",
                     "2k",
                     "--min-lifetime",
                     "250ms",
                     "--max-lifetime",
                     "1.5m",
                     "--fate",
                     "dead",
                     "--new",
                     "--heap",
                     "major",
                     "--source",
                     "custom",
                     "--thread",
                     "7",
                     "--thread",
                     "8",
                     "--domain",
                     "1"}));
  const pb::Filter got = filter();
  EXPECT_EQ(got.pattern(), "^Cache");
  EXPECT_THAT(got.require(), ElementsAre("a", "b,c"));
  EXPECT_THAT(got.forbid(), ElementsAre("d"));
  EXPECT_THAT(got.hide(), ElementsAre("e"));
  EXPECT_EQ(got.min_size_bytes(), 1024u);
  EXPECT_EQ(got.max_size_bytes(), 2048u);
  EXPECT_EQ(got.min_lifetime_seconds(), 0.25);
  EXPECT_EQ(got.max_lifetime_seconds(), 90);
  EXPECT_EQ(got.fate(), pb::FATE_DEAD);
  EXPECT_TRUE(got.allocated_in_range());
  EXPECT_EQ(got.heap(), pb::BLOCK_HEAP_MAJOR);
  EXPECT_EQ(got.source(), pb::BLOCK_SOURCE_CUSTOM);
  EXPECT_THAT(got.threads(), ElementsAre(7, 8));
  EXPECT_THAT(got.domains(), ElementsAre(1));
}

TEST_F(QueryOptionsTest, FramesOfTheCommandLineCountBeforeThoseOfTheFormat) {
  ASSERT_TRUE(parse({}));
  EXPECT_EQ(filter_of(options_, pb::FRAMES_APPLICATION)->frames(), pb::FRAMES_APPLICATION);
  ASSERT_TRUE(parse({"--frames", "all"}));
  EXPECT_EQ(filter_of(options_, pb::FRAMES_APPLICATION)->frames(), pb::FRAMES_ALL);
  EXPECT_FALSE(parse({"--frames", "some"}));
}

TEST_F(QueryOptionsTest, PatternsAreTakenAsTheyAre) {
  ASSERT_TRUE(
      parse({"--hide", "[A-Z]", "--hide", "[ab,c]", "--require", "^[x]$", "--match", "[abc]"}));
  EXPECT_THAT(filter().hide(), ElementsAre("[A-Z]", "[ab,c]"));
  EXPECT_THAT(filter().require(), ElementsAre("^[x]$"));
  EXPECT_EQ(filter().pattern(), "[abc]");
}

TEST_F(QueryOptionsTest, RepeatableOptionsLeaveTheTargetAlone) {
  ASSERT_TRUE(parse({"--thread", "5", "--hide", "x", "4242"}));
  EXPECT_THAT(filter().threads(), ElementsAre(5));
  EXPECT_THAT(filter().hide(), ElementsAre("x"));
  EXPECT_EQ(selection().target.pid, 4242);
}

TEST_F(QueryOptionsTest, TheTargetIsPositionalOrAnOption) {
  ASSERT_TRUE(parse({"--pid", "4242@-10m..-5m"}));
  EXPECT_EQ(selection().target.pid, 4242);
  EXPECT_EQ(selection().range.begin_unix_ns(), -600 * kSecond);
  EXPECT_EQ(selection().range.end_unix_ns(), -300 * kSecond);
}

TEST_F(QueryOptionsTest, RangeOfTheOptionWins) {
  ASSERT_TRUE(parse({"trace.ctf@-10m..", "--range", "-1m.."}));
  EXPECT_EQ(selection().target.file, "trace.ctf");
  EXPECT_EQ(selection().range.begin_unix_ns(), -60 * kSecond);
}

TEST_F(QueryOptionsTest, LastIsBeforeTheEndOfTheTargetsRange) {
  ASSERT_TRUE(parse({"4242@..-5m", "--last", "90s"}));
  EXPECT_EQ(selection().range.last_seconds(), 90);
  EXPECT_EQ(selection().range.end_unix_ns(), -300 * kSecond);
  EXPECT_EQ(selection().range.begin_unix_ns(), 0);
}

TEST_F(QueryOptionsTest, Peak) {
  ASSERT_TRUE(parse({"--peak"}));
  EXPECT_TRUE(selection().range.until_peak());
}

TEST_F(QueryOptionsTest, LastAndRangeExcludeEachOther) {
  EXPECT_FALSE(parse({"--range", "-1m..", "--last", "5m"}));
}
TEST_F(QueryOptionsTest, PeakAndLastExcludeEachOther) {
  EXPECT_FALSE(parse({"--peak", "--last", "5m"}));
}

TEST_F(QueryOptionsTest, Order) {
  ASSERT_TRUE(parse({"-s", "died-old", "-g", "module", "-n", "0"}));
  EXPECT_EQ(options_.order, pb::MEASURE_DIED_OLD);
  EXPECT_EQ(options_.group_by, pb::GROUP_BY_MODULE);
  EXPECT_EQ(options_.limit, 0);
}

TEST_F(QueryOptionsTest, BadSizesAndDurationsAreNamed) {
  ASSERT_TRUE(parse({}));
  const auto refused = [this](std::string QueryOptions::*option, const char* text) {
    QueryOptions options = options_;
    options.*option = text;
    absl::Status status = filter_of(options, pb::FRAMES_UNSPECIFIED).status();
    if (status.ok()) status = selection_of(options, kNow).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(refused(&QueryOptions::min_size, "1 parsec"), HasSubstr("bad size \"1 parsec\""));
  EXPECT_THAT(refused(&QueryOptions::max_size, "0"), HasSubstr("bad size \"0\""));
  EXPECT_THAT(refused(&QueryOptions::min_lifetime, "-1s"), HasSubstr("bad duration \"-1s\""));
  EXPECT_THAT(refused(&QueryOptions::max_lifetime, "x"), HasSubstr("bad duration \"x\""));
  EXPECT_THAT(refused(&QueryOptions::range, "x"), HasSubstr("bad range \"x\""));
  EXPECT_THAT(refused(&QueryOptions::last, "x"), HasSubstr("bad duration \"x\""));
  EXPECT_THAT(refused(&QueryOptions::last, "0s"), HasSubstr("--last"));
  EXPECT_THAT(refused(&QueryOptions::target, "0"), HasSubstr("bad pid 0"));
}

// Every word of a choice is understood, so that help and code agree.
TEST(QueryOptions, EveryWordOfEveryChoice) {
  for (int i = pb::Measure_MIN + 1; i <= pb::Measure_MAX; ++i) {
    std::string word = pb::Measure_Name(i).substr(sizeof "MEASURE_" - 1);
    for (char& c : word) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
    CLI::App app;
    QueryOptions options;
    add_order(app, options);
    EXPECT_NO_THROW(app.parse(std::vector<std::string>{word, "--sort"}));
    EXPECT_EQ(options.order, i);
  }
  for (int i = pb::GroupBy_MIN + 1; i <= pb::GroupBy_MAX; ++i) {
    std::string word = pb::GroupBy_Name(i).substr(sizeof "GROUP_BY_" - 1);
    for (char& c : word) c = static_cast<char>(std::tolower(c));
    CLI::App app;
    QueryOptions options;
    add_grouping(app, options);
    EXPECT_NO_THROW(app.parse(std::vector<std::string>{word, "--group-by"}));
    EXPECT_EQ(options.group_by, i);
  }
}

TEST(QueryOptions, UnknownWordsAreRefused) {
  for (const char* option : {"--heap", "--source", "--fate", "--sort", "--group-by"}) {
    CLI::App app;
    QueryOptions options;
    add_filter(app, options, true);
    add_grouping(app, options);
    add_order(app, options);
    EXPECT_THROW(app.parse(std::vector<std::string>{"nonsense", option}), CLI::ParseError);
  }
}

TEST(QueryOptions, LifetimesOnlyWhereTheyMakeSense) {
  CLI::App app;
  QueryOptions options;
  add_filter(app, options, false);
  EXPECT_THROW(app.parse(std::vector<std::string>{"1s", "--min-lifetime"}), CLI::ParseError);
}

}  // namespace
}  // namespace memprofd::ctl
