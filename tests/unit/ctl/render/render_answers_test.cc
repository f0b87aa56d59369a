// SPDX-License-Identifier: Apache-2.0
// The answers as text; whole ones are in tests/golden.
#include "daemon/ctl/render/render_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>

#include "daemon/ctl/render/text.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/query_service.h"
#include "daemon/util/paths.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/golden.h"
#include "tests/kit/recording.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::expect_golden;
using memprofd::testing::FakeService;
using memprofd::testing::fixed_target;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two minutes: callstack 1 leaks, 2 is a cache of 20 blocks, 3 dies at once.
std::shared_ptr<ProfileSnapshot> recorded_target() {
  Recording recording;
  recording.symbolizer = memprofd::testing::fixed_symbolizer();
  std::deque<std::uint64_t> cache;
  std::uint64_t id = 0;
  for (int second = 0; second < 120; ++second) {
    recording.alloc(++id, 1);
    recording.alloc(++id, 2);
    cache.push_back(id);
    recording.alloc(++id, 3, 5);
    recording.die(id);
    if (cache.size() > 20) {
      recording.die(cache.front(), MEMPROF_DEALLOC_MAJOR);
      cache.pop_front();
    }
    recording.advance(kSecond);
  }
  auto target = std::make_shared<ProfileSnapshot>(recording.snapshot());
  target->info.pid = 77;
  return target;
}

class RenderAnswersTest : public ::testing::Test {
 protected:
  FakeService service_{{fixed_target(), recorded_target()}};
  QueryService queries_{service_};
};

TEST_F(RenderAnswersTest, Diff) {
  pb::DiffSitesRequest request;
  request.mutable_base()->set_pid(77);
  request.mutable_base()->mutable_range()->set_end_unix_ns(kStart + 40 * kSecond);
  request.mutable_other()->set_pid(77);
  request.mutable_other()->mutable_range()->set_begin_unix_ns(kStart + 100 * kSecond);
  expect_golden("diff.txt", diff_text(queries_.diff_sites(request).value(), request, {}));
  request.set_per_second(true);
  EXPECT_THAT(diff_text(queries_.diff_sites(request).value(), request, {}),
              HasSubstr("\nlive, other minus base\n"))
      << "a level is no rate";
  request.set_order(pb::MEASURE_ALLOCATED);
  request.set_limit(1);
  const std::string text = diff_text(queries_.diff_sites(request).value(), request, {});
  EXPECT_THAT(text, HasSubstr("\nallocated, other minus base, change per second\n"));
  EXPECT_THAT(text, HasSubstr("all 3\n")) << "the limit hides no group from the sum";
}

// Callstack 1 keeps a block a second; after a minute the rate changes.
TEST(RenderSessions, AChangeOfTheRateIsNoGrowthAndMarked) {
  Recording recording;
  recording.symbolizer = memprofd::testing::fixed_symbolizer();
  for (int second = 0; second < 90; ++second) {
    if (second == 60) recording.set_rate(0.02);
    recording.alloc(second + 1, 1);
    recording.advance(kSecond);
  }
  auto target = std::make_shared<ProfileSnapshot>(recording.snapshot());
  target->info.pid = 77;
  FakeService service({target});
  QueryService queries(service);

  pb::DiffSitesRequest request;
  request.mutable_base()->set_pid(77);
  request.mutable_base()->mutable_range()->set_end_unix_ns(kStart + 40 * kSecond);
  request.mutable_other()->set_pid(77);
  request.set_order(pb::MEASURE_LIVE);
  EXPECT_THAT(diff_text(queries.diff_sites(request).value(), request, {}),
              HasSubstr("Sampling restarted between the two"));
  // 20 blocks of 100 words until the change, and 30 of 50 since, whatever became of the 60 before.
  EXPECT_DOUBLE_EQ(queries.diff_sites(request)->total().change(), (20 * 100 + 30 * 50) * 8);
  EXPECT_THAT(diff_text(queries.diff_sites(request).value(), request, {}),
              HasSubstr("<= +27.3 KiB "));
  std::swap(*request.mutable_base(), *request.mutable_other());
  EXPECT_THAT(diff_text(queries.diff_sites(request).value(), request, {}),
              HasSubstr(">= -27.3 KiB "));
  EXPECT_DOUBLE_EQ(queries.diff_sites(request)->total().change(), -(20 * 100 + 30 * 50) * 8);
  std::swap(*request.mutable_base(), *request.mutable_other());
  request.mutable_other()->mutable_range()->set_end_unix_ns(kStart + 50 * kSecond);
  EXPECT_THAT(diff_text(queries.diff_sites(request).value(), request, {}),
              Not(HasSubstr("ampling restarted")));

  // Blocks that the session before followed are not live any more, and are not gone either.
  const pb::Target shown = to_proto(*target);
  EXPECT_DOUBLE_EQ(shown.live_before().bytes(), 60 * 100 * 8);
  EXPECT_THAT(live_text(shown), HasSubstr(" lived at "));
  for (int second = 90; second < 200; ++second) {
    recording.alloc(second + 1, 1);
    recording.advance(kSecond);
  }
  EXPECT_FALSE(to_proto(recording.snapshot()).has_live_before()) << "more is followed now";

  pb::GetHistoryRequest history;
  history.mutable_selection()->set_pid(77);
  EXPECT_THAT(history_text(queries.get_history(history).value(), history, {}),
              HasSubstr("\nsampling restarted, and live restarted at zero: 2023-11-14 22:14:2"));
  history.mutable_selection()->mutable_range()->set_end_unix_ns(kStart + 50 * kSecond);
  EXPECT_THAT(history_text(queries.get_history(history).value(), history, {}),
              Not(HasSubstr("ampling restarted")));
}

TEST_F(RenderAnswersTest, DiffNamesGroupsOfOneSide) {
  pb::DiffSitesRequest request;
  request.mutable_base()->set_pid(4242);
  request.mutable_base()->mutable_filter()->set_pattern("Parser");
  request.mutable_other()->set_pid(4242);
  request.mutable_other()->mutable_filter()->set_pattern("Cache");
  const std::string text = diff_text(queries_.diff_sites(request).value(), request, {});
  EXPECT_THAT(text, HasSubstr("Parser.token  bin/parser.ml:112\n"));
  EXPECT_THAT(text, HasSubstr("Cache.fill  bin/cache.ml:58\n"));
}

TEST_F(RenderAnswersTest, Callers) {
  pb::ListCallersRequest request;
  request.mutable_selection()->set_pid(4242);
  request.set_function("Request\\.handle");
  request.set_order(pb::MEASURE_ALLOCATED);
  const auto response = queries_.list_callers(request).value();
  expect_golden("callers.txt", callers_text(response, request, {}));
  request.set_function("f\x1b[2J");
  EXPECT_THAT(callers_text(response, request, {}), Not(HasSubstr("\x1b")));
}

TEST_F(RenderAnswersTest, CallersOfNothing) {
  EXPECT_THAT(callers_text({}, {}, {}), Not(HasSubstr("nan")));
}

TEST_F(RenderAnswersTest, History) {
  pb::GetHistoryRequest request;
  request.mutable_selection()->set_pid(77);
  request.set_points(30);
  request.set_limit(2);
  expect_golden("history.txt", history_text(queries_.get_history(request).value(), request, {}));
  request.set_measure(pb::MEASURE_ALLOCATED);
  EXPECT_THAT(history_text(queries_.get_history(request).value(), request, {}), HasSubstr("/s"));
  EXPECT_EQ(history_text({}, request, {}), "no history yet: wait a second\n");
}

TEST_F(RenderAnswersTest, LinesAreCutAtTheWidth) {
  pb::GetHistoryRequest request;
  request.mutable_selection()->set_pid(77);
  const auto response = queries_.get_history(request).value();
  const std::string wide = history_text(response, request, {});
  const std::string narrow = history_text(response, request, {.width = 40});
  EXPECT_LT(narrow.size(), wide.size());
  EXPECT_THAT(narrow, HasSubstr("…"));
}

// Values that nothing good can be drawn from draw nothing bad.
TEST_F(RenderAnswersTest, BarsOfStrangeValues) {
  pb::GetHistoryResponse response;
  response.add_points();
  pb::HistorySeries& series = *response.add_series();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), -5.0, infinity, 0.0, 1e308, std::nan("")}) {
    series.add_values(value);
    series.add_stderrs(0);
  }
  EXPECT_THAT(history_text(response, {}, {}), HasSubstr("▁▁█▁▁▁"));
  series.clear_values();
  for (int i = 0; i <= 7; ++i) series.add_values(i);
  series.add_stderrs(0);
  series.add_stderrs(0);
  EXPECT_THAT(history_text(response, {}, {}), HasSubstr("▁▂▃▄▅▆▇█"));
}

TEST_F(RenderAnswersTest, Leaks) {
  pb::ListLeaksRequest request;
  request.mutable_selection()->set_pid(77);
  request.mutable_selection()->mutable_range()->set_begin_unix_ns(kStart + 30 * kSecond);
  const auto response = queries_.list_leaks(request).value();
  expect_golden("leaks.txt", leaks_text(response, pb::GROUP_BY_SITE));
}

// A shell and memprofctl read it as that function, whatever the program calls it.
TEST_F(RenderAnswersTest, WhatToAskNextAboutALeak) {
  pb::ListLeaksResponse response;
  EXPECT_EQ(why_hint(response, 77, {}), "");
  pb::Site& site = *response.add_leaks()->mutable_site();
  EXPECT_EQ(why_hint(response, 77, {}), "") << "threads have no function";
  site.set_function("Cache.(add')\n");
  const std::string hint =
      "To see what keeps the first one alive: memprofctl why --pid 77 "
      "'Cache\\.\\(add\\'\\''\\)\\?'";
  EXPECT_EQ(why_hint(response, 77, {}), hint + "\n");
  EXPECT_EQ(why_hint(response, 77, {.socket = find_grpc_socket()}), hint + "\n") << "the default";
  EXPECT_EQ(why_hint(response, 77, {.socket = "/run/my own.sock"}),
            hint + " --grpc.socket '/run/my own.sock'\n");
  EXPECT_EQ(why_hint(response, 77, {.socket = "/run/x.sock", .address = "https://host:9872"}),
            hint + " --address https://host:9872\n");
}

TEST_F(RenderAnswersTest, NoLeaks) {
  pb::ListLeaksResponse response;
  EXPECT_THAT(leaks_text(response, pb::GROUP_BY_SITE), HasSubstr("Nothing to compare"));
  response.set_compared_seconds(60);
  response.set_least_leak_bytes_per_second(1024);
  EXPECT_THAT(leaks_text(response, pb::GROUP_BY_SITE),
              AllOf(HasSubstr("No significant growth yet."),
                    HasSubstr("only growth above 3.52 MiB per hour at one site would show")));
}

TEST_F(RenderAnswersTest, WhatOfTheMemoryGrowsComesFirst) {
  pb::ListLeaksResponse response;
  response.set_compared_seconds(60);
  response.set_verdict(pb::LEAK_VERDICT_MEMORY);
  const auto add = [&](pb::MemoryArea area, double begin, double end, bool grows) {
    pb::MemoryGrowth& growth = *response.add_memory();
    growth.set_area(area);
    growth.set_begin_bytes(begin);
    growth.set_end_bytes(end);
    growth.set_moments(20);
    growth.set_least_growth_bytes(1 << 20);
    growth.set_grows(grows);
    if (!grows) return;
    growth.set_confidence(0.99999);
    growth.set_bytes_per_second((end - begin) / 120);
    growth.set_since_unix_ns(1'700'000'000'000'000'000);
  };
  add(pb::MEMORY_AREA_HEAP, 32 << 20, 32 << 20, false);
  add(pb::MEMORY_AREA_NATIVE, 10 << 20, 50 << 20, true);
  const std::string text = leaks_text(response, pb::GROUP_BY_SITE);
  EXPECT_THAT(text,
              HasSubstr("+40.0 MiB since 2023-11-14 22:13:20 UTC, 20.0 MiB per minute (99.9 % "
                        "sure)"));
  EXPECT_LT(text.find("native memory, stacks"), text.find("OCaml heap with garbage"));
  EXPECT_THAT(text, HasSubstr("steady"));
  const auto text_of_heap = [&](double end) {
    response.mutable_memory(0)->set_end_bytes(end);
    return leaks_text(response, pb::GROUP_BY_SITE);
  };
  EXPECT_THAT(text_of_heap(103 << 20), HasSubstr("  +71.0 MiB, not certain\n"));
  EXPECT_THAT(text_of_heap(20 << 20), HasSubstr("  -12.0 MiB\n"));
  EXPECT_THAT(text_of_heap((32 << 20) + (1 << 19)), HasSubstr("  steady\n"));
  response.mutable_memory(0)->set_moments(2);
  EXPECT_THAT(leaks_text(response, pb::GROUP_BY_SITE),
              HasSubstr("not known yet: too few major collections"));
}

TEST_F(RenderAnswersTest, GroupsAreNamedWhereNoSiteIs) {
  pb::ListLeaksResponse response;
  response.set_compared_seconds(60);
  response.set_verdict(pb::LEAK_VERDICT_GROUPS);
  pb::LeakGroup& module = *response.add_rolled_up();
  module.set_group_by(pb::GROUP_BY_MODULE);
  module.mutable_leak()->mutable_site()->set_module("Catalog");
  module.mutable_leak()->set_growth_bytes(3 << 20);
  pb::LeakGroup& caller = *response.add_rolled_up();
  caller.set_group_by(pb::GROUP_BY_FUNCTION);
  caller.mutable_leak()->mutable_site()->set_function("Poll.turn");
  const std::string text = leaks_text(response, pb::GROUP_BY_SITE);
  EXPECT_THAT(text, HasSubstr("these together do"));
  EXPECT_THAT(text, HasSubstr("module Catalog\n"));
  EXPECT_THAT(text, HasSubstr("function Poll.turn, with what it calls\n"));
  response.set_verdict(pb::LEAK_VERDICT_MEMORY);
  EXPECT_THAT(leaks_text(response, pb::GROUP_BY_SITE), HasSubstr("which may be chance"));
}

TEST_F(RenderAnswersTest, VariablesThatKeepMore) {
  pb::ListLeaksResponse response;
  EXPECT_EQ(containers_text(response), "");
  response.set_between_snapshots_seconds(30);
  EXPECT_THAT(containers_text(response), HasSubstr("No variable retains more memory than 30"));
  pb::ContainerChange& change = *response.add_containers();
  change.set_root("global Catalog.pages");
  change.set_kind("Hashtbl");
  change.set_bytes(34 << 20);
  change.set_change_bytes(3 << 20);
  change.set_entries(18'352);
  change.set_change_entries(1'204);
  change.set_site("Catalog.page catalog.ml:31");
  EXPECT_THAT(containers_text(response),
              HasSubstr("  global Catalog.pages: Hashtbl, +3.00 MiB to 34.0 MiB, +1204 to 18,352 "
                        "entries; most bytes from Catalog.page catalog.ml:31\n"));
}

}  // namespace
}  // namespace memprofd::ctl
