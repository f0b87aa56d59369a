// SPDX-License-Identifier: Apache-2.0
// A pipeline that resumes from the state of an earlier memprofd.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/kit/synthetic_target.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kStacks = 50;

class PipelineResumeTest : public testing::Test {
 protected:
  PipelineResumeTest() {
    target_.pipeline.fill(before_);
    next_.resume_from(before_);
  }
  ProfileSnapshot now() const {
    ProfileSnapshot snapshot;
    next_.fill(snapshot);
    return snapshot;
  }

  SyntheticTarget<KernelCaptured> target_{{.live = 6000, .stacks = kStacks}};
  ProfileSnapshot before_;
  Pipeline next_;
};

TEST_F(PipelineResumeTest, TotalsContinueAndNothingIsLive) {
  const ProfileSnapshot after = now();
  ASSERT_GT(before_.counters.live.samples, 0u);
  EXPECT_EQ(after.counters.alloc_events, before_.counters.alloc_events);
  EXPECT_EQ(after.counters.all_allocated().words, before_.counters.all_allocated().words);
  EXPECT_EQ(after.counters.live.samples, 0u);
  EXPECT_EQ(after.drops.get(Drop::kFollowSessionEnd), before_.counters.live.samples);
  EXPECT_EQ(after.rows.size(), before_.rows.size());
}

// Probes and budget are judged only by this memprofd's counts.
TEST_F(PipelineResumeTest, EarlierCountsAreNotItsOwn) {
  EXPECT_EQ(next_.alloc_events(), 0u);
  EXPECT_EQ(next_.captures_seen(), 0u);
  EXPECT_EQ(next_.frames_seen(), 0u);
  EXPECT_EQ(next_.batches_seen(), 0u);
}

TEST_F(PipelineResumeTest, CallstacksAreKnownAgain) {
  for (std::uint64_t stack = 1; stack <= kStacks; ++stack) {
    std::vector<std::uint64_t> frames(30);
    std::iota(frames.begin(), frames.end(), stack * 1000);
    KernelCaptured::introduce(stack, frames, next_);
  }
  EXPECT_EQ(now().stacks_interned, before_.stacks_interned);
  KernelCaptured::introduce(kStacks + 1, {77, 78}, next_);
  EXPECT_EQ(now().stacks_interned, before_.stacks_interned + 1);
}

}  // namespace
}  // namespace memprofd
