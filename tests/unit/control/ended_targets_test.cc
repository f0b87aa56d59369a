// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/ended_targets.h"

#include <gtest/gtest.h>

#include <vector>

namespace memprofd {
namespace {

using std::chrono::seconds;
using TimePoint = std::chrono::steady_clock::time_point;

TimePoint at(int second) { return TimePoint() + seconds(second); }

TEST(EndedTargets, TargetsThatEndedTooLongAgoGoFirst) {
  EXPECT_EQ(next_to_forget({}, 1, at(10)), std::nullopt);
  EXPECT_EQ(next_to_forget({{1, 0, at(10)}}, 1, at(10)), std::nullopt);
  EXPECT_EQ(next_to_forget({{1, 0, at(10)}, {2, 0, at(9)}}, 9, at(10)), 2);
}

TEST(EndedTargets, TargetsOfAUserDoNotDisplaceThoseOfAnother) {
  std::vector<EndedTarget> ended{{1, 0, at(1)}};
  for (int i = 0; i < 104; ++i) ended.push_back({100 + i, 1000, at(10 + i)});
  ended.push_back({2, std::nullopt, at(2)});
  std::vector<int> forgotten;
  while (const auto pid = next_to_forget(ended, 100, TimePoint::min())) {
    forgotten.push_back(*pid);
    std::erase_if(ended, [&](const EndedTarget& target) { return target.pid == *pid; });
  }
  EXPECT_EQ(forgotten, (std::vector{100, 101, 102, 103, 104, 105})) << "his own, the oldest first";
}

TEST(EndedTargets, DeploysDoNotDisplaceACrash) {
  EXPECT_EQ(
      next_to_forget({{1, 0, at(1), true}, {2, 0, at(2)}, {3, 0, at(3)}}, 2, TimePoint::min()), 2);
  EXPECT_EQ(next_to_forget({{1, 0, at(1), true}, {2, 0, at(2), true}}, 1, TimePoint::min()), 1);
}

TEST(EndedTargets, OfUsersWithTheSameNumberTheOldestGoes) {
  EXPECT_EQ(next_to_forget({{1, 1000, at(3)}, {2, 0, at(2)}}, 1, TimePoint::min()), 2);
}

}  // namespace
}  // namespace memprofd
