// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/request_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Params = std::multimap<std::string, std::string>;

template <typename Request>
Request filled(const Params& params) {
  Request request;
  const absl::Status status = fill_from_params(params, request);
  EXPECT_TRUE(status.ok()) << status;
  return request;
}

template <typename Request>
std::string refusal(const Params& params) {
  Request request;
  const absl::Status status = fill_from_params(params, request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
      << status << " " << request.ShortDebugString();
  return std::string(status.message());
}

TEST(RequestParams, FieldsByTheirNames) {
  const auto request = filled<pb::ListSitesRequest>(
      {{"pid", "4242"}, {"limit", "10"}, {"pattern", "^Cache\\."}, {"with_callstacks", "true"}});
  EXPECT_EQ(request.pid(), 4242);
  EXPECT_EQ(request.limit(), 10u);
  EXPECT_EQ(request.pattern(), "^Cache\\.");
  EXPECT_TRUE(request.with_callstacks());
  EXPECT_EQ(filled<pb::ListSitesRequest>({}).ByteSizeLong(), 0u);
}

TEST(RequestParams, DottedWays) {
  const auto request = filled<pb::DiffSitesRequest>({{"base.pid", "1"},
                                                     {"other.pid", "2"},
                                                     {"base.range.last_seconds", "2.5"},
                                                     {"other.filter.require", "x"}});
  EXPECT_EQ(request.base().pid(), 1);
  EXPECT_EQ(request.other().pid(), 2);
  EXPECT_EQ(request.base().range().last_seconds(), 2.5);
  EXPECT_THAT(request.other().filter().require(), ElementsAre("x"));
}

TEST(RequestParams, TheWayCanBeLeftOut) {
  const auto leaks = filled<pb::ListLeaksRequest>(
      {{"pid", "7"}, {"last_seconds", "60"}, {"min_size_bytes", "64"}, {"limit", "3"}});
  EXPECT_EQ(leaks.selection().pid(), 7);
  EXPECT_EQ(leaks.selection().range().last_seconds(), 60);
  EXPECT_EQ(leaks.selection().filter().min_size_bytes(), 64u);
  EXPECT_EQ(leaks.limit(), 3u);
}

TEST(RequestParams, TheNearestFieldIsMeant) {
  const auto request = filled<pb::ListSitesRequest>({{"pattern", "a"}, {"filter.pattern", "b"}});
  EXPECT_EQ(request.pattern(), "a");
  EXPECT_EQ(request.filter().pattern(), "b");
}

TEST(RequestParams, WaysThatCouldBeTwoAreNamed) {
  EXPECT_EQ(refusal<pb::DiffSitesRequest>({{"pid", "1"}}),
            "parameter pid could be base.pid or other.pid; give one");
  EXPECT_EQ(refusal<pb::DiffSitesRequest>({{"pattern", "x"}}),
            "parameter pattern could be base.filter.pattern or other.filter.pattern; give one");
  filled<pb::DiffSitesRequest>({{"base.filter.pattern", "x"}});
}

TEST(RequestParams, RepeatedFieldsTakeSeveral) {
  const auto request = filled<pb::GetProfileRequest>({{"pids", "1"},
                                                      {"pids", "2"},
                                                      {"require", "a"},
                                                      {"filter.require", "b"},
                                                      {"hide", "c"},
                                                      {"threads", "9"},
                                                      {"threads", "8"}});
  EXPECT_THAT(request.pids(), ElementsAre(1, 2));
  EXPECT_THAT(request.filter().require(), ::testing::UnorderedElementsAre("a", "b"));
  EXPECT_THAT(request.filter().threads(), ElementsAre(9, 8));
}

TEST(RequestParams, TheLastOfSeveralCountsForASingleField) {
  EXPECT_EQ(filled<pb::ListSitesRequest>({{"limit", "1"}, {"limit", "2"}}).limit(), 2u);
}

TEST(RequestParams, EnumsWithAndWithoutTheirType) {
  for (const char* text : {"allocated", "ALLOCATED", "MEASURE_ALLOCATED", "Allocated"}) {
    EXPECT_EQ(filled<pb::ListSitesRequest>({{"order", text}}).order(), pb::MEASURE_ALLOCATED);
  }
  EXPECT_EQ(filled<pb::ListSitesRequest>({{"order", "died_young"}}).order(),
            pb::MEASURE_DIED_YOUNG);
  EXPECT_EQ(filled<pb::ListSitesRequest>({{"heap", "major"}}).filter().heap(),
            pb::BLOCK_HEAP_MAJOR);
  EXPECT_EQ(filled<pb::GetProfileRequest>({{"format", "flame_json"}}).format(),
            pb::PROFILE_FORMAT_FLAME_JSON);
  for (const char* text : {"", "nonsense", "2", "-1", "site_order_", "SITE_ORDER", "live "}) {
    EXPECT_THAT(refusal<pb::ListSitesRequest>({{"order", text}}), HasSubstr("of parameter order"));
  }
  const auto kinds =
      filled<pb::StreamEventsRequest>({{"kinds", "promote"}, {"kinds", "alloc_minor"}});
  EXPECT_THAT(kinds.kinds(), ElementsAre(pb::EVENT_KIND_PROMOTE, pb::EVENT_KIND_ALLOC_MINOR));
}

TEST(RequestParams, Bools) {
  for (const char* yes : {"", "1", "true", "yes", "True"}) {
    EXPECT_TRUE(filled<pb::ListSitesRequest>({{"with_callstacks", yes}}).with_callstacks()) << yes;
  }
  for (const char* no : {"0", "false", "no"}) {
    EXPECT_FALSE(filled<pb::ListSitesRequest>({{"with_callstacks", no}}).with_callstacks()) << no;
  }
  EXPECT_EQ(refusal<pb::ListSitesRequest>({{"with_callstacks", "maybe"}}),
            "bad value \"maybe\" of parameter with_callstacks");
}

TEST(RequestParams, NumbersMustFit) {
  EXPECT_EQ(filled<pb::ListSitesRequest>({{"begin_unix_ns", "-9223372036854775808"}})
                .range()
                .begin_unix_ns(),
            std::numeric_limits<std::int64_t>::min());
  const std::pair<const char*, const char*> bad[] = {
      {"pid", ""},
      {"pid", "x"},
      {"pid", "1.5"},
      {"pid", "2147483648"},
      {"limit", "-1"},
      {"limit", "4294967296"},
      {"begin_unix_ns", "9223372036854775808"},
      {"min_size_bytes", "-1"},
      {"threads", "1,2"},
      {"last_seconds", "soon"},
      {"last_seconds", ""},
  };
  for (const auto& [name, value] : bad) {
    EXPECT_THAT(refusal<pb::ListSitesRequest>({{name, value}}),
                HasSubstr(std::string("\" of parameter ") + name))
        << value;
  }
}

TEST(RequestParams, UnknownNamesAreRefused) {
  for (const char* name :
       {"", ".", "..", "nothing", "filter.nothing", "pid.", ".pid", "pid.x", "filter..pattern",
        "filter.pattern.x", "PID", "range.begin_unix_ns ", "target"}) {
    EXPECT_EQ(refusal<pb::ListSitesRequest>({{name, "1"}}),
              std::string("unknown parameter ") + name);
  }
}

TEST(RequestParams, MessagesAreNotValues) {
  EXPECT_EQ(refusal<pb::DiffSitesRequest>({{"base.filter", "1"}}),
            "parameter base.filter is not a single value");
  EXPECT_EQ(refusal<pb::ListSitesRequest>({{"filter", "1"}}), "unknown parameter filter");
  refusal<pb::ListSitesResponse>({{"sites", "1"}});
  refusal<pb::ListSitesResponse>({{"total.callstack", "1"}});
}

// Names and values of random bytes, and of the pieces that real ones consist of.
TEST(RequestParams, AnyInputEndsInAStatus) {
  const std::vector<std::string> pieces{"base.filter.require",
                                        "other.filter.hide",
                                        "base",
                                        "other",
                                        "filter",
                                        "range",
                                        "pid",
                                        "order",
                                        "require",
                                        ".",
                                        "..",
                                        "pattern",
                                        "x",
                                        "live",
                                        "MEASURE_",
                                        "1",
                                        "-1",
                                        "1e9",
                                        "nan",
                                        "",
                                        "true",
                                        std::string(1, '\0'),
                                        "\xFF"};
  std::mt19937 random(4);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto text = [&] {
      std::string result;
      for (auto n = random() % 5; n > 0; --n) {
        if (random() % 8 == 0) {
          result += static_cast<char>(random());
        } else {
          result += pieces[random() % pieces.size()];
        }
      }
      return result;
    };
    pb::DiffSitesRequest request;
    Params params;
    params.emplace(text(), text());
    const absl::Status status = fill_from_params(params, request);
    accepted += status.ok();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace memprofd
