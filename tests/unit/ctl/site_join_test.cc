// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/site_join.h"

#include <gtest/gtest.h>

#include <cmath>

#include "daemon/export/api/query_service.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/kit/fake_service.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;
using memprofd::testing::FakeService;
using memprofd::testing::fixed_target;
using memprofd::testing::kSampleBytes;

pb::Site site(const char* function, double live_bytes, double stderr_bytes = 0) {
  pb::Site result;
  result.set_function(function);
  result.mutable_live()->set_bytes(live_bytes);
  result.mutable_live()->set_bytes_stderr(stderr_bytes);
  return result;
}

pb::ListSitesResponse sites(std::initializer_list<pb::Site> of, std::int64_t seconds = 10) {
  pb::ListSitesResponse result;
  for (const pb::Site& one : of) *result.add_sites() = one;
  result.mutable_range()->set_begin_unix_ns(1'000'000'000);
  result.mutable_range()->set_end_unix_ns((1 + seconds) * 1'000'000'000);
  return result;
}

TEST(JoinSites, LargestChangeFirst) {
  const auto base = sites({site("a", 100, 3), site("b", 50), site("gone", 20)});
  const auto other = sites({site("new", 5), site("b", 50), site("a", 70, 4)});
  const pb::DiffSitesResponse diff = join_sites(base, other, {});
  ASSERT_EQ(diff.diffs_size(), 4);
  EXPECT_EQ(diff.groups(), 4u);
  EXPECT_EQ(diff.diffs(0).other().function(), "a");
  EXPECT_EQ(diff.diffs(0).change(), -30);
  EXPECT_DOUBLE_EQ(diff.diffs(0).change_stderr(), 5);
  EXPECT_EQ(diff.diffs(1).change(), -20);
  EXPECT_EQ(diff.diffs(2).change(), 5);
  EXPECT_EQ(diff.diffs(3).change(), 0);
  EXPECT_EQ(diff.base_range().end_unix_ns(), base.range().end_unix_ns());
}

TEST(JoinSites, ASideWithoutTheGroupHasItsNameOnly) {
  pb::Site gone = site("gone", 20);
  gone.set_file("a.ml");
  gone.set_line(3);
  gone.add_callstack()->set_function("caller");
  const pb::DiffSitesResponse diff = join_sites(sites({gone}), sites({}), {});
  ASSERT_EQ(diff.diffs_size(), 1);
  EXPECT_EQ(diff.diffs(0).other().function(), "gone");
  EXPECT_EQ(diff.diffs(0).other().file(), "a.ml");
  EXPECT_EQ(diff.diffs(0).other().line(), 3u);
  EXPECT_EQ(diff.diffs(0).other().live().bytes(), 0);
  EXPECT_EQ(diff.diffs(0).other().callstack_size(), 0) << "no name of a site";
}

TEST(JoinSites, LimitLeavesTheTotalWhole) {
  pb::DiffSitesRequest request;
  request.set_limit(1);
  auto base = sites({site("a", 1), site("b", 2)});
  auto other = sites({site("a", 2), site("b", 20)});
  *base.mutable_total() = site("", 3);
  *other.mutable_total() = site("", 22);
  const pb::DiffSitesResponse diff = join_sites(base, other, request);
  ASSERT_EQ(diff.diffs_size(), 1);
  EXPECT_EQ(diff.diffs(0).change(), 18);
  EXPECT_EQ(diff.groups(), 2u);
  EXPECT_EQ(diff.total().change(), 19);
}

TEST(JoinSites, FlowsArePerSecondOfTheirOwnRange) {
  pb::Site a = site("a", 100);
  a.mutable_allocated()->set_bytes(1000);
  a.mutable_allocated()->set_bytes_stderr(100);
  pb::DiffSitesRequest request;
  request.set_per_second(true);
  EXPECT_EQ(join_sites(sites({a}, 10), sites({a}, 5), request).diffs(0).change(), 0) << "a level";
  request.set_order(pb::MEASURE_ALLOCATED);
  const pb::DiffSitesResponse diff = join_sites(sites({a}, 10), sites({a}, 5), request);
  EXPECT_DOUBLE_EQ(diff.diffs(0).change(), 200 - 100);
  EXPECT_DOUBLE_EQ(diff.diffs(0).change_stderr(), std::hypot(20, 10));
  EXPECT_EQ(diff.diffs(0).other().allocated().bytes(), 1000) << "the sides are no rates";
  const pb::DiffSitesResponse nothing = join_sites(sites({a}, 0), sites({a}, 5), request);
  EXPECT_DOUBLE_EQ(nothing.diffs(0).change(), 200) << "nothing happens in no time";
}

// Callstacks that differ only in columns look the same; none may get lost.
TEST(JoinSites, CallstacksAreTheirFrames) {
  const auto with_path = [](double live, std::initializer_list<const char*> path) {
    pb::Site result = site("f", live);
    for (const char* function : path) result.add_callstack()->set_function(function);
    return result;
  };
  pb::DiffSitesRequest request;
  request.set_group_by(pb::GROUP_BY_CALLSTACK);
  const pb::DiffSitesResponse diff =
      join_sites(sites({with_path(10, {"f", "x"}), with_path(8, {"f", "y"})}),
                 sites({with_path(40, {"f", "y"}), with_path(11, {"f", "x"}),
                        with_path(5, {"f", "x"}), with_path(1, {"f"})}),
                 request);
  ASSERT_EQ(diff.diffs_size(), 4);
  EXPECT_EQ(diff.diffs(0).change(), 32);
  EXPECT_EQ(diff.diffs(1).change(), 5);
  EXPECT_EQ(diff.diffs(1).base().callstack(1).function(), "x") << "part of the name";
  EXPECT_EQ(diff.diffs(2).change(), 1);
  EXPECT_EQ(diff.diffs(3).change(), 1);
}

TEST(JoinSites, OfNothing) {
  const pb::DiffSitesResponse diff = join_sites({}, {}, {});
  EXPECT_EQ(diff.diffs_size(), 0);
  EXPECT_EQ(diff.total().change(), 0);
}

// One source gives the same result as its own DiffSites.
TEST(JoinSites, AgreesWithDiffSites) {
  FakeService service({fixed_target(), fixed_target(4300)});
  QueryService queries(service);
  for (int group_by = pb::GroupBy_MIN; group_by <= pb::GroupBy_MAX; ++group_by) {
    for (const pb::Measure order :
         {pb::MEASURE_LIVE, pb::MEASURE_ALLOCATED, pb::MEASURE_PROMOTED, pb::MEASURE_SAMPLES,
          pb::MEASURE_LIFETIME, pb::MEASURE_DIED_OLD}) {
      pb::DiffSitesRequest request;
      request.set_group_by(static_cast<pb::GroupBy>(group_by));
      request.set_order(order);
      request.set_per_second(true);
      request.mutable_base()->set_pid(4242);
      request.mutable_base()->mutable_filter()->set_pattern("Cache|Parser");
      request.mutable_other()->set_pid(4300);
      request.mutable_other()->mutable_filter()->set_pattern("Cache|Sessions");
      const auto list = [&](const pb::Selection& selection) {
        pb::ListSitesRequest one;
        one.set_pid(selection.pid());
        *one.mutable_filter() = selection.filter();
        one.set_group_by(request.group_by());
        one.set_order(request.order());
        return queries.list_sites(one).value();
      };
      const auto joined = join_sites(list(request.base()), list(request.other()), request);
      const auto asked = queries.diff_sites(request).value();
      google::protobuf::util::MessageDifferencer differencer;
      differencer.set_float_comparison(google::protobuf::util::MessageDifferencer::APPROXIMATE);
      EXPECT_TRUE(differencer.Compare(joined, asked))
          << pb::GroupBy_Name(group_by) << " " << pb::Measure_Name(order);
    }
  }
}

}  // namespace
}  // namespace memprofd::ctl
