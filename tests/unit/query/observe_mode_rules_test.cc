// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/observe_mode_rules.h"

#include <gtest/gtest.h>

#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

ProfileSnapshot observed(bool probes_native_heap) {
  ProfileSnapshot target;
  target.info.pid = 42;
  target.info.mode = TargetMode::kObserve;
  target.info.asked.native_heap_interval = probes_native_heap ? 4096 : 0;
  return target;
}

const Filter kOfC{.heap = HeapKind::kC};
const Filter kOfMalloc{.source = Source::kMalloc};
const Filter kOfMinor{.heap = HeapKind::kMinor};

TEST(ObserveModeRules, WhatBecameOfBlocksIsNotKnown) {
  for (const Filter& filter : {Filter(), kOfC, kOfMalloc, kOfMinor}) {
    EXPECT_FALSE(follows_blocks(observed(false), filter));
    EXPECT_EQ(check_known(observed(false), filter, Measure::kLive).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(check_known(observed(false), filter, Measure::kAllocated).ok());
  }
}

TEST(ObserveModeRules, OfCsMemoryItIsWhereProbesFollowIt) {
  for (const Filter& filter : {kOfC, kOfMalloc}) {
    EXPECT_TRUE(follows_blocks(observed(true), filter));
    EXPECT_TRUE(check_known(observed(true), filter, Measure::kLive).ok());
    EXPECT_TRUE(check_follows_blocks(observed(true), filter, "leaks").ok());
  }
}

TEST(ObserveModeRules, AnAnswerAboutBothKnowsOfNeither) {
  for (const Filter& filter : {Filter(), kOfMinor}) {
    EXPECT_FALSE(follows_blocks(observed(true), filter));
    ::memprof::v1::Site site;
    site.mutable_live()->set_bytes(1);
    leave_unknown_out(observed(true), filter, site);
    EXPECT_FALSE(site.has_live());
  }
}

TEST(ObserveModeRules, WhereAnAgentIsAllIsKnown) {
  ProfileSnapshot target;
  EXPECT_TRUE(follows_blocks(target, Filter()));
  EXPECT_TRUE(follows_blocks(target, kOfC));
}

}  // namespace
}  // namespace memprofd
