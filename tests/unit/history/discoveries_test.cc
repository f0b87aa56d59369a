// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/discoveries.h"

#include <gtest/gtest.h>

#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

ProfileSnapshotPtr target(int pid, TargetState state, TargetMode mode = TargetMode::kAgent) {
  auto made = testing::fixed_target(pid);
  made->info.state = state;
  made->info.mode = mode;
  made->info.message = "why";
  return made;
}

std::uint64_t count(const Discoveries& found, Discovery outcome) {
  return found.counts[static_cast<std::size_t>(outcome)];
}

TEST(Discoveries, TargetsSayHowFarTheyAre) {
  const Discoveries found =
      with_targets({}, {target(1, TargetState::kSampling), target(2, TargetState::kWaiting),
                        target(3, TargetState::kSampling, TargetMode::kObserve),
                        target(4, TargetState::kDetached), target(5, TargetState::kExited)});
  ASSERT_EQ(found.programs.size(), 3u) << "whether the others still run only a search knows";
  EXPECT_EQ(found.programs[0].outcome, Discovery::kProfiled);
  EXPECT_EQ(found.programs[1].outcome, Discovery::kWaiting);
  EXPECT_EQ(found.programs[2].outcome, Discovery::kObserved);
  EXPECT_EQ(found.programs[2].reason, "why");
  EXPECT_EQ(count(found, Discovery::kProfiled), 1u);
}

TEST(Discoveries, ASearchIsCorrectedByTargets) {
  Discoveries search;
  const auto add = [&](int pid, std::uint64_t start, Discovery outcome, const char* rule) {
    search.add({.pid = pid, .start_time_ticks = start, .outcome = outcome, .rule = rule});
  };
  add(9, 1, Discovery::kNoRule, "");
  add(1, testing::kStartTicks, Discovery::kWaiting, "shop");
  add(4, testing::kStartTicks, Discovery::kWaiting, "shop");
  add(5, testing::kStartTicks + 1, Discovery::kNoRule, "");  // another process than the target
  add(6, testing::kStartTicks, Discovery::kWaiting, "shop");
  const Discoveries found =
      with_targets(search, {target(1, TargetState::kSampling), target(4, TargetState::kDetached),
                            target(5, TargetState::kExited), target(6, TargetState::kFailed)});
  ASSERT_EQ(found.programs.size(), 5u);
  EXPECT_EQ(found.programs[0].outcome, Discovery::kProfiled);
  EXPECT_EQ(found.programs[0].rule, "shop");
  EXPECT_EQ(found.programs[1].outcome, Discovery::kDetached);
  EXPECT_EQ(found.programs[2].outcome, Discovery::kNoRule);
  EXPECT_EQ(found.programs[3].outcome, Discovery::kRefused);
  EXPECT_EQ(found.programs[4].pid, 9) << "ordered by pid";
  EXPECT_EQ(count(found, Discovery::kWaiting), 0u);
  EXPECT_EQ(count(found, Discovery::kNoRule), 2u);
}

TEST(Discoveries, RowsAreBoundedAndAllAreCounted) {
  Discoveries search;
  for (std::size_t pid = 1; pid <= Discoveries::kMaxPrograms + 5; ++pid) {
    search.add({.pid = static_cast<int>(pid), .outcome = Discovery::kBytecode});
  }
  const Discoveries found = with_targets(search, {});
  EXPECT_EQ(found.programs.size(), Discoveries::kMaxPrograms);
  EXPECT_EQ(found.left_out, 5u);
  EXPECT_EQ(count(found, Discovery::kBytecode), Discoveries::kMaxPrograms + 5);
}

}  // namespace
}  // namespace memprofd
