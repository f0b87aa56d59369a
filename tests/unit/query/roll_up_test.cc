// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/roll_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "bpf/events.h"
#include "daemon/model/target_info.h"
#include "daemon/query/frame_filter.h"
#include "tests/kit/fake_profile.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::FakeProfile;
using testing::HideFunction;
using ::testing::UnorderedElementsAre;
using Names = std::vector<std::string>;

class GroupsTest : public ::testing::Test {
 protected:
  GroupsTest() {
    fake_.name(1, {.function = "Cache.add", .file = "cache.ml", .line = 10, .library = "a.exe"});
    fake_.name(2, {.function = "Cache.add", .file = "cache.ml", .line = 11, .library = "a.exe"});
    fake_.name(3, {.function = "Parser.token", .file = "parser.ml", .line = 5, .library = "b.so"});
    fake_.name(4, {.function = "Cache.find", .file = "cache.ml", .line = 30, .library = "a.exe"});
    fake_.name(8, {.function = "Main.a", .file = "main.ml", .line = 1, .library = "a.exe"});
    fake_.name(9, {.function = "Main.b", .file = "main.ml", .line = 2, .library = "a.exe"});
  }

  ProfileRow& add(std::vector<std::uint64_t> entries, std::uint32_t allocated, std::uint32_t live) {
    return fake_.add(std::move(entries), allocated, live);
  }
  GroupResult roll_up(const GroupQuery& query) const {
    return memprofd::roll_up(fake_.profile, query);
  }
  // Each group by its key and its allocated samples.
  Names groups_by(GroupBy by) const {
    Names result;
    for (const Group& group : roll_up({.group_by = by, .order = Measure::kAllocated}).groups) {
      const Location& at = group.location;
      std::string name = absl::StrCat(at.function, "|", at.file, "|", at.line, "|", at.library, "|",
                                      group.unit, "|", group.number);
      for (const auto& location : group.path) absl::StrAppend(&name, "/", location->function);
      result.push_back(absl::StrCat(name, " ", group.counters.allocated.samples));
    }
    return result;
  }
  Names names(const GroupQuery& query) const {
    Names result;
    for (const Group& site : roll_up(query).groups) {
      result.push_back(absl::StrCat(site.location.function, ":", site.location.line));
    }
    return result;
  }

  FakeProfile fake_;
};

TEST_F(GroupsTest, CallstacksOfOneSiteAreSummed) {
  add({1, 8}, 10, 1);
  add({3, 9}, 5, 5);
  add({1, 9}, 20, 2);
  const auto sites = roll_up({.order = Measure::kAllocated}).groups;
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].location.function, "Cache.add");
  EXPECT_EQ(sites[0].counters.allocated.samples, 30u);
  EXPECT_EQ(sites[0].counters.live.samples, 3u);
  ASSERT_EQ(sites[0].callstack.size(), 2u);
  EXPECT_EQ(sites[0].callstack[1].function, "Main.b") << "the heavier callstack";
  EXPECT_EQ(sites[1].counters.allocated.samples, 5u);
}

TEST_F(GroupsTest, LinesAreSitesOfTheirOwn) {
  add({1}, 10, 1);
  add({2}, 20, 2);
  EXPECT_EQ(names({.order = Measure::kAllocated}), (Names{"Cache.add:11", "Cache.add:10"}));
}

TEST_F(GroupsTest, EachOrder) {
  ProfileRow& cache = add({1}, 10, 1);
  cache.counters.promoted.add(5, weight_of_word(1));
  cache.counters.deallocated[0].add(3, weight_of_word(1));
  cache.counters.deaths.add(Heap::kMinor, 1'000, 100, 1);
  cache.counters.allocated_objects = 1;
  cache.counters.live_objects = 1;
  ProfileRow& parser = add({3}, 2, 2);
  parser.counters.allocated.words = 1000;  // fewer samples at a lower rate
  parser.counters.deallocated[1].add(4, weight_of_word(1));
  parser.counters.deaths.add(Heap::kMinor, 1'000'000, 1, 1);
  parser.counters.allocated_objects = 2;
  parser.counters.live_objects = 3;
  const Names cache_first{"Cache.add:10", "Parser.token:5"};
  const Names parser_first{"Parser.token:5", "Cache.add:10"};
  EXPECT_EQ(names({.order = Measure::kAllocated}), parser_first);
  EXPECT_EQ(names({.order = Measure::kSamples}), cache_first);
  EXPECT_EQ(names({.order = Measure::kLive}), parser_first);
  EXPECT_EQ(names({.order = Measure::kPromoted}), cache_first);
  EXPECT_EQ(names({.order = Measure::kLifetime}), parser_first);
  EXPECT_EQ(names({.order = Measure::kDiedYoung}), cache_first);
  EXPECT_EQ(names({.order = Measure::kDiedOld}), parser_first);
  EXPECT_EQ(names({.order = Measure::kAllocatedObjects}), parser_first);
  EXPECT_EQ(names({.order = Measure::kLiveObjects}), parser_first);
}

TEST_F(GroupsTest, EachGrouping) {
  ProfileRow& first = add({1, 8}, 1, 0);
  first.alloc_class.thread = 70;
  first.alloc_class.domain = 1;
  add({2, 8}, 2, 0).alloc_class.thread = 71;
  add({3, 8}, 4, 0).alloc_class.domain = 1;
  add({4, 9}, 8, 0).alloc_class.thread = 70;
  add({1, 8}, 16, 0);
  EXPECT_THAT(groups_by(GroupBy::kSite),
              ElementsAre("Cache.add|cache.ml|10|||0 17", "Cache.find|cache.ml|30|||0 8",
                          "Parser.token|parser.ml|5|||0 4", "Cache.add|cache.ml|11|||0 2"));
  EXPECT_THAT(groups_by(GroupBy::kFunction),
              ElementsAre("Cache.add|cache.ml|0|||0 19", "Cache.find|cache.ml|0|||0 8",
                          "Parser.token|parser.ml|0|||0 4"));
  EXPECT_THAT(groups_by(GroupBy::kFile), ElementsAre("|cache.ml|0|||0 27", "|parser.ml|0|||0 4"));
  EXPECT_THAT(groups_by(GroupBy::kModule), ElementsAre("||0||Cache|0 27", "||0||Parser|0 4"));
  EXPECT_THAT(groups_by(GroupBy::kLibrary), ElementsAre("||0|a.exe||0 27", "||0|b.so||0 4"));
  EXPECT_THAT(groups_by(GroupBy::kCallstack),
              ElementsAre("Cache.add|cache.ml|10|||0/Cache.add/Main.a 17",
                          "Cache.find|cache.ml|30|||0/Cache.find/Main.b 8",
                          "Parser.token|parser.ml|5|||0/Parser.token/Main.a 4",
                          "Cache.add|cache.ml|11|||0/Cache.add/Main.a 2"));
  EXPECT_THAT(groups_by(GroupBy::kThread), ElementsAre("||0|||0 20", "||0|||70 9", "||0|||71 2"));
  EXPECT_THAT(groups_by(GroupBy::kDomain), ElementsAre("||0|||0 26", "||0|||1 5"));
}

TEST_F(GroupsTest, HiddenFramesChangeTheSite) {
  add({1, 8}, 3, 3);
  add({3, 8}, 2, 2);
  fake_.profile.hidden = std::make_shared<HideFunction>("Cache.add");
  EXPECT_EQ(names({}), (Names{"Main.a:1", "Parser.token:5"}));
  add({1}, 9, 9);
  add({2, 1}, 9, 9);
  const GroupResult result = roll_up({});
  EXPECT_EQ(result.groups[0].location.function, "(hidden)");
  EXPECT_EQ(result.groups[0].counters.live.samples, 18u);
  EXPECT_EQ(result.groups[0].callstack.size(), 1u);
}

TEST_F(GroupsTest, CallstacksThatDifferInHiddenFramesOnlyAreOne) {
  add({3, 1, 8}, 1, 0);
  add({3, 8}, 2, 0);
  fake_.profile.hidden = std::make_shared<HideFunction>("Cache.add");
  EXPECT_THAT(groups_by(GroupBy::kCallstack),
              ElementsAre("Parser.token|parser.ml|5|||0/Parser.token/Main.a 3"));
}

TEST_F(GroupsTest, InnermostInlinedFunctionIsTheSite) {
  fake_.symbolizer->table[5] = {{.function = "Leaf.f"}, {.function = "Outer.g"}};
  add({5, 8}, 1, 1);
  const GroupResult result = roll_up({});
  ASSERT_EQ(result.groups.size(), 1u);
  EXPECT_EQ(result.groups[0].location.function, "Leaf.f");
  ASSERT_EQ(result.groups[0].callstack.size(), 3u);
  EXPECT_EQ(result.groups[0].callstack[1].function, "Outer.g");
}

TEST_F(GroupsTest, RecursionIsExpandedUpToALimit) {
  add({1, 8, MEMPROF_RUN_MARK | 2, 9}, 1, 1);
  EXPECT_THAT(groups_by(GroupBy::kCallstack),
              ElementsAre("Cache.add|cache.ml|10|||0/Cache.add/Main.a/Main.a/Main.a/Main.b 1"));
  add({1, 8, MEMPROF_RUN_MARK | 0x7fffffff}, 5, 5);
  const auto groups = roll_up({}).groups;
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].callstack.size(), VisibleFrames::kMaxLocations);
}

TEST_F(GroupsTest, TiesAreOrderedByName) {
  add({3}, 1, 1);
  add({2}, 1, 1);
  add({1}, 1, 1);
  EXPECT_EQ(names({}), (Names{"Cache.add:10", "Cache.add:11", "Parser.token:5"}));
}

TEST_F(GroupsTest, LimitLeavesTheTotal) {
  add({1}, 3, 3);
  add({2}, 2, 2);
  add({3}, 1, 1).counters.promoted.add(1, weight_of_word(0.5));
  EXPECT_EQ(names({.limit = 1}), (Names{"Cache.add:10"}));
  const GroupResult result = roll_up({.limit = 1});
  EXPECT_EQ(result.n_groups, 3u);
  EXPECT_EQ(result.total.counters.live.samples, 6u);
  EXPECT_EQ(result.total.counters.allocated.words, 6);
  EXPECT_EQ(result.total.counters.promoted.words, 2);
  EXPECT_EQ(roll_up({.limit = 9}).groups.size(), 3u);
}

TEST_F(GroupsTest, NothingIsNoGroup) {
  const GroupResult result = roll_up({});
  EXPECT_TRUE(result.groups.empty());
  EXPECT_EQ(result.n_groups, 0u);
  EXPECT_EQ(result.total.counters.allocated.samples, 0u);
}

TEST_F(GroupsTest, CallstackOnlyWhenAskedOrWhenItMakesTheGroup) {
  add({1, 8}, 1, 1);
  EXPECT_TRUE(roll_up({.with_callstack = false}).groups[0].callstack.empty());
  EXPECT_EQ(roll_up({.group_by = GroupBy::kCallstack, .with_callstack = false})
                .groups[0]
                .callstack.size(),
            2u);
}

TEST_F(GroupsTest, SiteWithoutWeightHasItsCallstackToo) {
  add({1, 8}, 1, 0);
  EXPECT_EQ(roll_up({.order = Measure::kLive}).groups[0].callstack.size(), 2u);
}

TEST_F(GroupsTest, UnknownCallstackIsASite) {
  add({}, 1, 1);
  EXPECT_EQ(names({}), (Names{"(unknown):0"}));
}

TEST_F(GroupsTest, ErrorOfObjectsIsThatOfTheWords) {
  // 8 words each with the header: 16 samples at rate 1 are 2 blocks.
  add({1}, 16, 16);
  // 2 words each at rate 0.5: 10 samples are 20 words are 10 blocks.
  ProfileRow& small = add({1}, 0, 0);
  small.counters.add_allocated(10, weight_of_word(0.5), 2);
  const auto groups = roll_up({}).groups;
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_DOUBLE_EQ(measure_value(groups[0].counters, Measure::kAllocatedObjects), 2 + 10);
  EXPECT_DOUBLE_EQ(measure_stderr(groups[0], Measure::kAllocatedObjects),
                   std::sqrt(16.0 / (8 * 8) + 10.0 * 0.5 / (0.5 * 0.5 * 2 * 2)));
  EXPECT_DOUBLE_EQ(measure_stderr(groups[0], Measure::kLiveObjects), std::sqrt(16.0 / (8 * 8)));
}

TEST_F(GroupsTest, LimitsOfObjectsAreThoseOfTheSamples) {
  fake_.profile.unseen = {1, 1};
  add({1}, 3, 0);
  const Group group = roll_up({}).groups.at(0);
  const Limits allocated = measure_limits(group, Measure::kAllocatedObjects);
  EXPECT_NEAR(allocated.lower, 0.76 / 8, 0.01) << "blocks of 8 words";
  EXPECT_NEAR(allocated.upper, 8.16 / 8, 0.01);
  EXPECT_EQ(measure_limits(group, Measure::kAllocated), allocated.scaled(64));
  const Limits live = measure_limits(group, Measure::kLiveObjects);
  EXPECT_EQ(live.lower, 0);
  EXPECT_NEAR(live.upper, 1.5, 0.01) << "3 words, which may be one and a half blocks";
  EXPECT_NEAR(measure_limits(group, Measure::kLive).upper, 3.0 * 8, 0.1);
  EXPECT_EQ(measure_limits(group, Measure::kLifetime), Limits());
}

TEST_F(GroupsTest, WhatIsMissingMayBelongToEach) {
  add({1}, 3, 0);
  const Group before = roll_up({}).groups.at(0);
  fake_.profile.unseen.missing = 100;
  const Group group = roll_up({}).groups.at(0);
  for (const Measure measure : {Measure::kAllocated, Measure::kLive, Measure::kAllocatedObjects}) {
    const Limits less = measure_limits(before, measure), more = measure_limits(group, measure);
    EXPECT_EQ(more.lower, less.lower);
    EXPECT_NEAR(more.upper - less.upper, measure == Measure::kAllocatedObjects ? 50 : 800, 1e-6);
  }
}

TEST(MeasureTest, ValuesAndErrors) {
  GroupCounts counts;
  Counters& counters = counts.counters;
  counters.live.add(4, weight_of_word(0.5));
  counters.allocated.add(9, weight_of_word(0.5));
  counters.promoted.add(1, weight_of_word(1));
  counters.deallocated[0].add(2, weight_of_word(1));
  counters.deallocated[1].add(3, weight_of_word(1));
  counters.deaths.add(Heap::kMinor, 1'000'000'000, 5, 1);
  EXPECT_EQ(measure_value(counters, Measure::kLive), 64);
  EXPECT_DOUBLE_EQ(measure_stderr(counts, Measure::kLive), 32 * std::sqrt(0.5));
  EXPECT_EQ(measure_value(counters, Measure::kAllocated), 144);
  EXPECT_DOUBLE_EQ(measure_stderr(counts, Measure::kAllocated), 48 * std::sqrt(0.5));
  EXPECT_EQ(measure_value(counters, Measure::kSamples), 9);
  EXPECT_EQ(measure_stderr(counts, Measure::kSamples), 3);
  EXPECT_EQ(measure_value(counters, Measure::kPromoted), 8);
  EXPECT_EQ(measure_value(counters, Measure::kDiedYoung), 16);
  EXPECT_EQ(measure_value(counters, Measure::kDiedOld), 24);
  EXPECT_NEAR(measure_value(counters, Measure::kLifetime), 1, 0.5);
  EXPECT_EQ(measure_stderr(counts, Measure::kLifetime), 0);
  for (const Measure measure : {Measure::kLive, Measure::kLifetime, Measure::kLiveObjects}) {
    EXPECT_EQ(measure_value({}, measure), 0);
    EXPECT_EQ(measure_stderr({}, measure), 0);
  }
}

TEST(CompilationUnitTest, ComesBeforeTheFirstDot) {
  const auto unit = [](std::string_view function) {
    return std::string(compilation_unit(function, "server.exe"));
  };
  EXPECT_EQ(unit("Stdlib__Bytes.concat"), "Stdlib__Bytes");
  EXPECT_EQ(unit("Dune__exe__Main.Sub.f"), "Dune__exe__Main");
  EXPECT_EQ(unit("Stdlib.^"), "Stdlib");
  EXPECT_EQ(unit("Stdlib.+."), "Stdlib");
  EXPECT_EQ(unit("Foo.(fun)"), "Foo");
  EXPECT_EQ(unit("Foo'"), "Foo'") << "a unit's own code";
  EXPECT_EQ(unit("caml_alloc_string"), "server.exe");
  EXPECT_EQ(unit("caml_alloc.part.0"), "server.exe");
  EXPECT_EQ(unit("0x1234"), "server.exe");
  EXPECT_EQ(unit("Ns::f(int)"), "server.exe");
  EXPECT_EQ(unit(""), "server.exe");
  EXPECT_EQ(compilation_unit("(unknown)", ""), "(no module)");
}

TEST(GroupedRowsTest, SumsOfAllSites) {
  FakeProfile fake;
  fake.name(1, {.function = "F.f", .file = "f.ml", .line = 1});
  fake.add({1, 8}, 10, 4);
  fake.add({1, 9}, 1, 1);
  fake.add({2}, 3, 0);
  const GroupedRows rows(fake.profile, GroupBy::kSite);
  Names sites;
  for (const Group& site : rows.all_sums()) {
    sites.push_back(absl::StrCat(site.location.function, " ", site.counters.allocated.samples));
    EXPECT_TRUE(site.callstack.empty());
  }
  EXPECT_THAT(sites, UnorderedElementsAre("F.f 11", "0x2 3"));
}

TEST(StateNameTest, Words) {
  EXPECT_EQ(state_name(TargetState::kWaiting), "waiting");
  EXPECT_EQ(state_name(TargetState::kSampling), "sampling");
  EXPECT_EQ(state_name(TargetState::kDetached), "detached");
  EXPECT_EQ(state_name(TargetState::kExited), "exited");
  EXPECT_EQ(state_name(TargetState::kFailed), "failed");
}

// 10,000 classes with 30 frames each, from 3,000 addresses.
class ManyRows : public ::testing::Test {
 protected:
  ManyRows() {
    std::uint64_t state = 1;
    const auto random = [&](std::uint64_t below) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33) % below;
    };
    for (std::uint64_t address = 1; address <= 3000; ++address) {
      fake_.name(address, {.function = absl::StrCat("Some_library__Module", address % 97,
                                                    ".function_", address / 3),
                           .file = absl::StrCat("src/lib/module", address % 97, ".ml"),
                           .line = static_cast<std::uint32_t>(address),
                           .library = "server.exe"});
    }
    for (int row = 0; row < 10'000; ++row) {
      std::vector<std::uint64_t> entries;
      for (int i = 0; i < 30; ++i) entries.push_back(1 + random(3000));
      ProfileRow& added = fake_.add(std::move(entries), 10, 2);
      for (int i = 0; i < 4; ++i) added.counters.deaths.add(Heap::kMinor, 1000u << i, 2, 1);
    }
  }
  FakeProfile fake_;
};

TEST_F(ManyRows, RollUpAsksOnceForEachAddress) {
  for (const GroupBy by : {GroupBy::kSite, GroupBy::kModule, GroupBy::kCallstack}) {
    fake_.symbolizer->calls = 0;
    EXPECT_GT(roll_up(fake_.profile, {.group_by = by, .limit = 50}).n_groups, 90u);
    EXPECT_LE(fake_.symbolizer->calls, 2 * 3000) << "innermost or not";
  }
}

TEST_F(ManyRows, FilterAsksOnceForEachAddress) {
  const auto filter =
      FrameFilter::compile({.require = {"Module1[0-9]"}, .forbid = {"function_1$", "nowhere"}});
  ASSERT_TRUE(filter.ok());
  fake_.symbolizer->calls = 0;
  int passed = 0;
  RowFilter rows(*filter, *fake_.symbolizer);
  for (const ProfileRow& row : fake_.profile.rows) {
    passed += rows.passes(row.alloc_class, *row.callstack) ? 1 : 0;
  }
  EXPECT_GT(passed, 5000);
  EXPECT_LT(passed, 10'000);
  EXPECT_LE(fake_.symbolizer->calls, 2 * 3000);
}

}  // namespace
}  // namespace memprofd
