// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/query_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "daemon/export/api/query_convert.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kRate;
using testing::kSampleBytes;
using ::testing::Not;

constexpr std::int64_t kAttached = 1'700'000'000'000'000'000;
constexpr std::int64_t kNow = kAttached + 600'000'000'000;

class QueryServiceTest : public ::testing::Test {
 protected:
  pb::ListSitesResponse list(const pb::ListSitesRequest& request) {
    auto answer = queries_.list_sites(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return *std::move(answer);
  }
  static std::vector<std::string> functions(const pb::ListSitesResponse& response) {
    std::vector<std::string> result;
    for (const pb::Site& site : response.sites()) result.push_back(site.function());
    return result;
  }
  static pb::ListSitesRequest request() {
    pb::ListSitesRequest result;
    result.set_pid(4242);
    result.set_with_callstacks(true);
    return result;
  }
  // The message of the refusal.
  std::string refusal(const pb::ListSitesRequest& request) {
    const auto answer = queries_.list_sites(request);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument) << answer.status();
    EXPECT_THAT(std::string(answer.status().message()), Not(HasSubstr("\n")));
    return std::string(answer.status().message());
  }

  FakeService service_{std::vector<ProfileSnapshotPtr>{fixed_target(), fixed_target(4300)}};
  QueryService queries_{service_};
};

TEST_F(QueryServiceTest, ListsSitesWithTotals) {
  pb::ListSitesRequest asked = request();
  asked.set_limit(2);
  const pb::ListSitesResponse response = list(asked);
  EXPECT_THAT(functions(response), ElementsAre("Sessions.remember", "Cache.fill"));
  EXPECT_EQ(response.target().pid(), 4242);
  EXPECT_EQ(response.time_unix_ns(), kNow);
  EXPECT_EQ(response.range().begin_unix_ns(), kAttached);
  EXPECT_EQ(response.range().end_unix_ns(), kNow);
  EXPECT_EQ(response.groups(), 4u);
  EXPECT_EQ(response.total().samples(), 274003u);
  EXPECT_EQ(response.total().live().bytes(), 10403 * kSampleBytes);
  EXPECT_EQ(response.total().function(), "");
  const pb::Site& site = response.sites(1);
  EXPECT_EQ(site.file(), "bin/cache.ml");
  EXPECT_EQ(site.line(), 58u);
  EXPECT_EQ(site.samples(), 14000u);
  EXPECT_EQ(site.died_old().samples(), 2200u);
  EXPECT_EQ(site.lifetime().samples(), 13200u);
  ASSERT_EQ(site.callstack_size(), 3);
  EXPECT_EQ(site.callstack(2).function(), "Server.loop");
  EXPECT_EQ(site.callstack(2).library(), "server.exe");
  asked.set_with_callstacks(false);
  EXPECT_EQ(list(asked).sites(0).callstack_size(), 0);
}

TEST_F(QueryServiceTest, PatternOfRequestAndOfFilterMustBothMatch) {
  pb::ListSitesRequest asked = request();
  asked.set_pattern("^(Cache|Parser)\\.");
  EXPECT_THAT(functions(list(asked)), ElementsAre("Cache.fill", "Parser.token"));
  asked.mutable_filter()->set_pattern("bin/(parser|sessions)");
  EXPECT_THAT(functions(list(asked)), ElementsAre("Parser.token"));
  EXPECT_EQ(list(asked).total().samples(), 250000u) << "the total is of what passes";
  asked.mutable_filter()->set_pattern("sessions");
  EXPECT_THAT(functions(list(asked)), ElementsAre());
}

TEST_F(QueryServiceTest, ASelectionIsAsGoodAsItsParts) {
  pb::ListSitesRequest parts = request();
  parts.mutable_filter()->set_pattern("Cache");
  parts.mutable_range()->set_last_seconds(1e6);
  pb::ListSitesRequest asked;
  asked.set_with_callstacks(true);
  asked.mutable_selection()->set_pid(4242);
  *asked.mutable_selection()->mutable_filter() = parts.filter();
  *asked.mutable_selection()->mutable_range() = parts.range();
  EXPECT_EQ(list(asked).SerializeAsString(), list(parts).SerializeAsString());
  EXPECT_THAT(functions(list(asked)), ElementsAre("Cache.fill"));
  asked.set_pid(4242);
  EXPECT_EQ(refusal(asked), "bad request: give a selection, or pid, range and filter, not both");
}

TEST_F(QueryServiceTest, GroupsAreNamedByWhatMakesThem) {
  pb::ListSitesRequest asked = request();
  asked.mutable_filter()->set_pattern("Cache");
  const auto only = [&](pb::GroupBy by) {
    asked.set_group_by(by);
    const pb::ListSitesResponse response = list(asked);
    EXPECT_EQ(response.sites_size(), 1);
    pb::Site site = response.sites(0);
    EXPECT_EQ(site.samples(), 14000u);
    EXPECT_EQ(site.callstack_size(), 3);
    return site;
  };
  EXPECT_EQ(only(pb::GROUP_BY_SITE).line(), 58u);
  EXPECT_EQ(only(pb::GROUP_BY_UNSPECIFIED).line(), 58u);
  EXPECT_EQ(only(pb::GROUP_BY_FUNCTION).function(), "Cache.fill");
  EXPECT_EQ(only(pb::GROUP_BY_FUNCTION).line(), 0u);
  EXPECT_EQ(only(pb::GROUP_BY_FILE).file(), "bin/cache.ml");
  EXPECT_EQ(only(pb::GROUP_BY_FILE).function(), "");
  EXPECT_EQ(only(pb::GROUP_BY_MODULE).module(), "Cache");
  EXPECT_EQ(only(pb::GROUP_BY_LIBRARY).library(), "server.exe");
  EXPECT_EQ(only(pb::GROUP_BY_CALLSTACK).function(), "Cache.fill");
  EXPECT_EQ(only(pb::GROUP_BY_THREAD).function(), "");
  EXPECT_EQ(only(pb::GROUP_BY_DOMAIN).domain(), 0u);
}

// Blocks of one class have one size: their number is as well known as their bytes.
TEST(BlockCounts, HaveTheirError) {
  const auto target = memprofd::testing::fixed_target();
  target->rows[0].counters.allocated_objects = 5000;
  target->rows[0].counters.live_objects = 400;
  memprofd::testing::FakeService service({target});
  pb::ListSitesRequest request;
  request.set_pid(4242);
  const pb::ListSitesResponse response = QueryService(service).list_sites(request).value();
  const pb::Site& total = response.total();
  const Counters& counters = target->rows[0].counters;
  EXPECT_DOUBLE_EQ(total.allocated_objects_stderr(),
                   5000 / counters.allocated.bytes() * counters.allocated.stderr_bytes());
  EXPECT_DOUBLE_EQ(total.live_objects_stderr(),
                   400 / counters.live.bytes() * counters.live.stderr_bytes());
}

TEST_F(QueryServiceTest, EachOrder) {
  const auto first = [&](pb::Measure order) {
    pb::ListSitesRequest asked = request();
    asked.set_order(order);
    return functions(list(asked)).front();
  };
  EXPECT_EQ(first(pb::MEASURE_UNSPECIFIED), "Sessions.remember");
  EXPECT_EQ(first(pb::MEASURE_LIVE), "Sessions.remember");
  EXPECT_EQ(first(pb::MEASURE_ALLOCATED), "Parser.token");
  EXPECT_EQ(first(pb::MEASURE_SAMPLES), "Parser.token");
  EXPECT_EQ(first(pb::MEASURE_PROMOTED), "Sessions.remember");
  EXPECT_EQ(first(pb::MEASURE_LIFETIME), "0xbeef") << "watched longest, and nothing of it died";
  EXPECT_EQ(first(pb::MEASURE_DIED_YOUNG), "Parser.token");
  EXPECT_EQ(first(pb::MEASURE_DIED_OLD), "Cache.fill");
}

TEST_F(QueryServiceTest, HiddenFramesChangeTheSite) {
  pb::ListSitesRequest asked = request();
  asked.mutable_filter()->add_hide("^(Cache|Parser|Sessions)");
  asked.mutable_filter()->add_forbid("0xbeef");
  const pb::ListSitesResponse response = list(asked);
  EXPECT_THAT(functions(response), ElementsAre("Request.handle"));
  EXPECT_EQ(response.sites(0).samples(), 274000u);
  EXPECT_EQ(response.sites(0).callstack_size(), 2);
}

TEST_F(QueryServiceTest, NonsenseIsRefused) {
  pb::ListSitesRequest asked = request();
  asked.set_pattern("Cache[");
  EXPECT_THAT(refusal(asked), HasSubstr("bad site pattern \"Cache[\""));
  asked = request();
  asked.set_order(static_cast<pb::Measure>(99));
  EXPECT_EQ(refusal(asked), "unknown order of sites 99: use a value of Measure");
  asked = request();
  asked.set_group_by(static_cast<pb::GroupBy>(-1));
  EXPECT_EQ(refusal(asked), "unknown grouping -1: use a value of GroupBy");
  asked = request();
  asked.mutable_filter()->set_heap(static_cast<pb::BlockHeap>(5));
  EXPECT_EQ(refusal(asked), "unknown heap 5: use a value of BlockHeap");
  asked = request();
  asked.mutable_filter()->set_source(static_cast<pb::BlockSource>(5));
  EXPECT_EQ(refusal(asked), "unknown source 5: use a value of BlockSource");
  asked = request();
  asked.mutable_filter()->set_fate(static_cast<pb::Fate>(3));
  EXPECT_EQ(refusal(asked), "unknown fate 3: use a value of Fate");
  asked = request();
  asked.mutable_range()->set_begin_unix_ns(kNow + 2'000'000'000);
  EXPECT_THAT(refusal(asked), HasSubstr("begins 2 s after the last counts"));
  asked = request();
  asked.set_pid(1);
  EXPECT_EQ(queries_.list_sites(asked).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(QueryServiceTest, DiffOfTwoTargets) {
  pb::DiffSitesRequest asked;
  asked.mutable_base()->set_pid(4242);
  asked.mutable_base()->mutable_filter()->set_pattern("Cache|Parser");
  asked.mutable_other()->set_pid(4300);
  asked.mutable_other()->mutable_filter()->set_pattern("Cache|Sessions");
  asked.set_order(pb::MEASURE_ALLOCATED);
  asked.set_limit(2);
  asked.set_with_callstacks(true);
  const auto answer = queries_.diff_sites(asked);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->diffs_size(), 2);
  EXPECT_EQ(answer->groups(), 3u);
  EXPECT_EQ(answer->diffs(0).base().function(), "Parser.token");
  EXPECT_EQ(answer->diffs(0).base().samples(), 250000u);
  EXPECT_EQ(answer->diffs(0).other().function(), "Parser.token");
  EXPECT_EQ(answer->diffs(0).other().samples(), 0u);
  EXPECT_EQ(answer->diffs(0).change(), -250000 * kSampleBytes);
  EXPECT_NEAR(answer->diffs(0).change_stderr(), 500 * std::sqrt(1 - kRate) * kSampleBytes, 1);
  EXPECT_EQ(answer->diffs(1).other().function(), "Sessions.remember");
  EXPECT_EQ(answer->diffs(1).change(), 10000 * kSampleBytes);
  EXPECT_EQ(answer->diffs(1).other().callstack_size(), 3);
  EXPECT_EQ(answer->total().change(), -240000 * kSampleBytes);
  EXPECT_EQ(answer->base_range().begin_unix_ns(), kAttached);
  EXPECT_EQ(answer->other_range().end_unix_ns(), kNow);
  asked.set_per_second(true);
  EXPECT_DOUBLE_EQ(queries_.diff_sites(asked)->total().change(), -240000 * kSampleBytes / 600);
}

TEST_F(QueryServiceTest, DiffRefusesWhatListSitesRefuses) {
  pb::DiffSitesRequest asked;
  asked.mutable_base()->set_pid(4242);
  asked.mutable_other()->set_pid(1);
  EXPECT_EQ(queries_.diff_sites(asked).status().code(), absl::StatusCode::kNotFound);
  asked.mutable_other()->set_pid(4242);
  EXPECT_TRUE(queries_.diff_sites(asked).ok());
  asked.mutable_other()->mutable_filter()->add_forbid("(");
  EXPECT_EQ(queries_.diff_sites(asked).status().code(), absl::StatusCode::kInvalidArgument);
  asked.clear_other();
  asked.set_order(static_cast<pb::Measure>(99));
  EXPECT_EQ(queries_.diff_sites(asked).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(QueryServiceTest, ARangeThatEndsBeforeTheAttachIsRefused) {
  pb::ListSitesRequest asked;
  asked.set_pid(4242);
  asked.mutable_range()->set_end_unix_ns(kAttached);
  EXPECT_EQ(queries_.list_sites(asked).status().message(),
            "bad range: it ends before the attach (2023-11-14 22:13:20 UTC); choose a later one");
  asked.mutable_range()->set_end_unix_ns(kAttached + 1);
  EXPECT_TRUE(queries_.list_sites(asked).ok());
}

TEST_F(QueryServiceTest, DiffRefusesARangeThatEndsBeforeTheAttach) {
  pb::DiffSitesRequest asked;
  asked.mutable_base()->set_pid(4242);
  asked.mutable_other()->set_pid(4242);
  asked.mutable_base()->mutable_range()->set_begin_unix_ns(kAttached - 600'000'000'000);
  asked.mutable_base()->mutable_range()->set_end_unix_ns(kAttached);
  const absl::Status refused = queries_.diff_sites(asked).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "bad range: the base ends before the attach (2023-11-14 22:13:20 UTC); choose a later "
            "one");
  asked.mutable_base()->mutable_range()->set_end_unix_ns(kAttached + 60'000'000'000);
  EXPECT_TRUE(queries_.diff_sites(asked).ok());
  *asked.mutable_other()->mutable_range() = asked.base().range();
  asked.mutable_other()->mutable_range()->set_end_unix_ns(kAttached - 1);
  EXPECT_THAT(std::string(queries_.diff_sites(asked).status().message()),
              HasSubstr("the other ends before the attach"));
}

TEST_F(QueryServiceTest, Callers) {
  pb::ListCallersRequest asked;
  asked.mutable_selection()->set_pid(4242);
  asked.set_function("^Request");
  asked.set_order(pb::MEASURE_ALLOCATED);
  const auto answer = queries_.list_callers(asked);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->total().samples(), 274000u);
  EXPECT_EQ(answer->total().function(), "Request.handle");
  EXPECT_EQ(answer->self().samples(), 0u);
  ASSERT_EQ(answer->callers_size(), 1);
  EXPECT_EQ(answer->callers(0).function(), "Server.loop");
  EXPECT_EQ(answer->callers(0).allocated().samples(), 274000u);
  ASSERT_EQ(answer->callees_size(), 3);
  EXPECT_EQ(answer->callees(0).function(), "Parser.token");
  EXPECT_EQ(answer->callees(2).function(), "Sessions.remember");
  EXPECT_EQ(answer->range().end_unix_ns(), kNow);
  asked.set_limit(1);
  EXPECT_EQ(queries_.list_callers(asked)->callees_size(), 1);
  asked.mutable_selection()->mutable_filter()->set_pattern("Cache");
  EXPECT_EQ(queries_.list_callers(asked)->total().samples(), 14000u);
  asked.set_function("(");
  EXPECT_EQ(queries_.list_callers(asked).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TimeRangeFromProto, BeginEndAndLast) {
  const auto convert = [](std::int64_t begin, std::int64_t end, double last) {
    pb::TimeRange range;
    range.set_begin_unix_ns(begin);
    range.set_end_unix_ns(end);
    range.set_last_seconds(last);
    return from_proto(range, 100'000'000'000);
  };
  EXPECT_EQ(*convert(0, 0, 0), (TimeRange{}));
  EXPECT_EQ(*convert(5, 9, 0), (TimeRange{5, 9}));
  EXPECT_EQ(*convert(0, 9, 0), (TimeRange{0, 9}));
  EXPECT_EQ(*convert(0, 0, 2.5), (TimeRange{97'500'000'000, 0})) << "before now";
  EXPECT_EQ(*convert(0, 50'000'000'000, 2.5), (TimeRange{47'500'000'000, 50'000'000'000}));
  EXPECT_EQ(*convert(0, 0, 1e300), (TimeRange{})) << "all there is";
  EXPECT_EQ(*convert(-60'000'000'000, 0, 0), (TimeRange{40'000'000'000, 0})) << "before now";
  EXPECT_EQ(*convert(-60'000'000'000, -50'000'000'000, 0),
            (TimeRange{40'000'000'000, 50'000'000'000}));
  EXPECT_EQ(*convert(std::numeric_limits<std::int64_t>::min(), 0, 0), (TimeRange{1, 0}));
  for (const auto& bad :
       {convert(-1, -2, 0), convert(9, 5, 0), convert(5, 5, 0), convert(200'000'000'000, 0, 0),
        convert(0, 0, -1), convert(0, 0, std::nan("")),
        convert(0, 0, std::numeric_limits<double>::infinity()), convert(5, 0, 1)}) {
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument) << bad.status();
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("bad range: "));
  }
}

TEST(TimeRangeFromProto, UntilPeakGoesAlone) {
  pb::TimeRange range;
  range.set_until_peak(true);
  EXPECT_TRUE(from_proto(range, 10)->until_peak);
  range.set_last_seconds(1);
  EXPECT_EQ(from_proto(range, 10).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(QueryConvert, EachFieldOfAFilterCounts) {
  pb::Filter filter;
  filter.set_pattern("a");
  filter.add_require("b");
  filter.add_require("c");
  filter.add_forbid("d");
  filter.add_hide("e");
  filter.set_min_size_bytes(8);
  filter.set_max_size_bytes(80);
  filter.set_min_lifetime_seconds(0.5);
  filter.set_max_lifetime_seconds(2);
  filter.set_fate(pb::FATE_DEAD);
  filter.set_allocated_in_range(true);
  filter.set_heap(pb::BLOCK_HEAP_MAJOR);
  filter.set_source(pb::BLOCK_SOURCE_CUSTOM);
  filter.add_threads(7);
  filter.add_domains(1);
  const auto converted = from_proto(filter);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_THAT(converted->patterns, ElementsAre("a"));
  EXPECT_THAT(converted->require, ElementsAre("b", "c"));
  EXPECT_THAT(converted->forbid, ElementsAre("d"));
  EXPECT_THAT(converted->hide, ElementsAre("e"));
  EXPECT_EQ(converted->min_size_bytes, 8u);
  EXPECT_EQ(converted->max_size_bytes, 80u);
  EXPECT_EQ(converted->lifetime.min_seconds, 0.5);
  EXPECT_EQ(converted->lifetime.max_seconds, 2);
  EXPECT_EQ(converted->lifetime.fate, Fate::kDead);
  EXPECT_TRUE(converted->lifetime.allocated_in_range);
  EXPECT_EQ(converted->heap, HeapKind::kMajor);
  EXPECT_EQ(converted->source, Source::kCustom);
  EXPECT_THAT(converted->threads, ElementsAre(7));
  EXPECT_THAT(converted->domains, ElementsAre(1));
}

TEST(QueryConvert, AnEmptyFilterPassesAll) {
  const auto converted = from_proto(pb::Filter());
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_THAT(converted->patterns, Each(IsEmpty()));
  EXPECT_THAT(converted->require, IsEmpty());
  EXPECT_EQ(converted->max_size_bytes, 0u);
  EXPECT_EQ(converted->lifetime.fate, Fate::kAny);
  EXPECT_FALSE(converted->heap.has_value());
  EXPECT_FALSE(converted->source.has_value());
  EXPECT_THAT(converted->threads, IsEmpty());
}

TEST(QueryConvert, RangesComeBack) {
  const TimeRange range{5, 9};
  EXPECT_EQ(*from_proto(to_proto(range), 100), range);
}

TEST(QueryConvert, EveryEnumValueIsKnown) {
  for (int i = pb::Measure_MIN + 1; i <= pb::Measure_MAX; ++i) {
    const auto value = static_cast<pb::Measure>(i);
    EXPECT_EQ(measure_row(from_proto(value).value()).proto, value);
  }
  for (int i = pb::GroupBy_MIN + 1; i <= pb::GroupBy_MAX; ++i) {
    const auto value = static_cast<pb::GroupBy>(i);
    EXPECT_EQ(group_row(from_proto(value).value()).proto, value);
  }
  std::set<Fate> fates;
  for (int i = pb::Fate_MIN; i <= pb::Fate_MAX; ++i) {
    EXPECT_TRUE(fates.insert(from_proto(static_cast<pb::Fate>(i)).value()).second) << i;
  }
}

TEST(QueryConvert, NamesBecomeUtf8) {
  Group group;
  group.location = {.function = "b\xFF", .file = "f\xFF"};
  group.unit = "u\xFF";
  group.callstack = {{.function = "c\xFF", .library = "m\xFF"}};
  const pb::Site site = to_proto(group);
  EXPECT_EQ(site.function(), "b\xEF\xBF\xBD");
  EXPECT_EQ(site.module(), "u\xEF\xBF\xBD");
  EXPECT_EQ(site.callstack(0).library(), "m\xEF\xBF\xBD");
  EXPECT_FALSE(site.SerializeAsString().empty());
}

}  // namespace
}  // namespace memprofd
