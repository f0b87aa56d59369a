// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/forked_children.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

constexpr char kProgram[] = "/bin/server";

class ForkedChildrenTest : public ::testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  // A process that runs that program.
  void live(int pid, const std::string& exe = kProgram) {
    proc_.write(std::to_string(pid) + "/status", "Name:\tserver\nState:\tS (sleeping)\n");
    proc_.link(std::to_string(pid) + "/exe", exe);
  }

  bool fork(const ForkFamilyPtr& family, int parent, int pid) {
    return children_.add(family,
                         {.pid = pid, .parent = parent, .exe = kProgram, .seen_at = forked_at_});
  }

  bool fork_living(const ForkFamilyPtr& family, int parent, int pid) {
    live(pid);
    return fork(family, parent, pid);
  }

  // Pid of the next child to inspect, or 0.
  int next() {
    const auto due = children_.next(forked_at_ + ForkedChildren::kPatience);
    return due ? due->second.pid : 0;
  }

  int next_after_inspection() {
    const int pid = next();
    children_.inspection_over(pid, /*given_up=*/false);
    return pid;
  }

  TempDir proc_;
  ForkedChildren children_{ProcFs(proc_.path())};
  Clock::time_point forked_at_ = Clock::now();
  ForkFamilyPtr one_ = std::make_shared<ForkFamily>();
  ForkFamilyPtr other_ = std::make_shared<ForkFamily>();
};

TEST_F(ForkedChildrenTest, AChildIsDueAfterAMoment) {
  ASSERT_TRUE(fork_living(one_, 1, 10));
  EXPECT_FALSE(children_.next(forked_at_).has_value());
  EXPECT_TRUE(children_.waiting());
  EXPECT_EQ(next(), 10);
  EXPECT_FALSE(children_.waiting());
}

TEST_F(ForkedChildrenTest, OnesThatEndedOrRunAnotherProgramAreDropped) {
  ASSERT_TRUE(fork(one_, 1, 10));
  ASSERT_TRUE(fork(one_, 1, 11));
  live(11, "/bin/sleep");
  ASSERT_TRUE(fork_living(one_, 1, 12));
  EXPECT_EQ(next(), 12);
}

TEST_F(ForkedChildrenTest, AFamilyHasOneInspectionAtATime) {
  ASSERT_TRUE(fork_living(one_, 1, 10));
  ASSERT_TRUE(fork_living(one_, 1, 11));
  ASSERT_TRUE(fork_living(other_, 2, 20));
  EXPECT_EQ(next(), 10);
  EXPECT_EQ(next(), 20);
  EXPECT_EQ(next(), 0);
  children_.inspection_over(10, false);
  EXPECT_EQ(next(), 11);
}

TEST_F(ForkedChildrenTest, FamiliesTakeTurns) {
  for (int pid = 10; pid < 14; ++pid) ASSERT_TRUE(fork_living(one_, 1, pid));
  ASSERT_TRUE(fork_living(other_, 2, 20));
  ASSERT_TRUE(fork_living(other_, 2, 21));
  std::vector<int> pids;
  while (const int pid = next_after_inspection()) pids.push_back(pid);
  EXPECT_EQ(pids, (std::vector{10, 20, 11, 21, 12, 13}));
}

TEST_F(ForkedChildrenTest, AFullQueueIsItsFamilysAlone) {
  for (std::size_t i = 0; i < ForkFamily::kMaxWaiting; ++i) ASSERT_TRUE(fork(one_, 1, 10));
  EXPECT_FALSE(fork(one_, 1, 10));
  EXPECT_TRUE(fork_living(other_, 2, 20));
  EXPECT_EQ(next(), 20);
}

TEST_F(ForkedChildrenTest, InspectionsAreLimitedInTotal) {
  std::vector<ForkFamilyPtr> families(ForkedChildren::kMaxInspections + 1);
  int pid = 10;
  for (ForkFamilyPtr& family : families) {
    family = std::make_shared<ForkFamily>();
    ASSERT_TRUE(fork_living(family, 1, pid++));
  }
  for (int i = 0; i < ForkedChildren::kMaxInspections; ++i) EXPECT_EQ(next(), 10 + i);
  EXPECT_EQ(next(), 0);
  children_.inspection_over(10, false);
  EXPECT_EQ(next(), 10 + ForkedChildren::kMaxInspections);
}

TEST_F(ForkedChildrenTest, AbandonedInspectionsAreCounted) {
  for (int i = 0; i < ForkFamily::kMaxGivenUp; ++i) {
    EXPECT_FALSE(one_->given_up());
    ASSERT_TRUE(fork_living(one_, 1, 10 + i));
    EXPECT_EQ(next(), 10 + i);
    children_.inspection_over(10 + i, /*given_up=*/true);
  }
  EXPECT_TRUE(one_->given_up());
  EXPECT_FALSE(other_->given_up());
}

TEST_F(ForkedChildrenTest, AParentHasChildrenUntilTheyHaveBeenInspected) {
  ASSERT_TRUE(fork_living(one_, 1, 10));
  EXPECT_TRUE(children_.any_of(1));
  EXPECT_FALSE(children_.any_of(2));
  EXPECT_EQ(next(), 10);
  EXPECT_TRUE(children_.any_of(1));
  children_.inspection_over(99, false);
  EXPECT_TRUE(children_.any_of(1));
  children_.inspection_over(10, false);
  EXPECT_FALSE(children_.any_of(1));
}

TEST(SkippedChildren, TheFirstOfEachReasonIsSaidAndTheOthersAreCounted) {
  SkippedChildren children;
  EXPECT_EQ(children.not_logged(), 0u);
  EXPECT_TRUE(children.add(SkippedChildren::kTooManyForks));
  EXPECT_EQ(children.not_logged(), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(children.add(SkippedChildren::kTooManyForks));
  EXPECT_TRUE(children.add(SkippedChildren::kRefused));
  EXPECT_FALSE(children.add(SkippedChildren::kRefused));
  EXPECT_EQ(children.not_logged(), 1001u);
}

}  // namespace
}  // namespace memprofd
