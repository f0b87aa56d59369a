// SPDX-License-Identifier: Apache-2.0
// The watched safe point against the real kernel: which threads hit it, and which gets the signal.

#include "daemon/attach/kernel/safe_point.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "daemon/util/clock.h"
#include "daemon/util/fd.h"
#include "tests/kernel/probe_target.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Long enough for a test to fail, and no test waits that long.
constexpr milliseconds kLong{20'000};

class SafePointTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    target_.emplace();
    const auto site =
        site_in_this_program(reinterpret_cast<std::uint64_t>(&probe_target_safe_point));
    ASSERT_TRUE(site);
    auto attached = SafePoint::attach(target_->pid(), *site);
    ASSERT_TRUE(attached.ok()) << attached.status();
    point_ = *std::move(attached);
  }
  std::optional<memprof_safe_point_hit> wait(milliseconds time = kLong) {
    return point_->wait_hit(cancel_.get(), time);
  }
  int signals() { return target_->shared().signals; }

  std::optional<ProbeTarget> target_;
  std::unique_ptr<SafePoint> point_;
  UniqueFd cancel_{::eventfd(0, EFD_CLOEXEC)};
};

TEST_F(SafePointTest, NobodyKnocksUnwatched) {
  target_->safe_point();
  EXPECT_FALSE(wait(milliseconds(0)));
  EXPECT_EQ(signals(), 0);
}

TEST_F(SafePointTest, WhoPassesKnocksOnceAndGoesOn) {
  point_->watch();
  const std::uint64_t before = monotonic_ns();
  const int tid = target_->safe_point();
  const auto hit = wait();
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->own_tid, static_cast<std::uint32_t>(tid));
  EXPECT_EQ(hit->tid, static_cast<std::uint32_t>(tid));
  EXPECT_GE(hit->time_ns, before);
  target_->safe_point();
  EXPECT_FALSE(wait(milliseconds(0)));
  EXPECT_EQ(signals(), 0);
}

TEST_F(SafePointTest, OneSignalWhenOpenedAlsoAtALaterPass) {
  point_->watch();
  const int tid = target_->safe_point();  // does not wait for longer than it says
  const auto hit = wait();
  ASSERT_TRUE(hit);
  point_->open(*hit, SIGURG, kLong);
  EXPECT_EQ(signals(), 0);
  target_->safe_point();
  target_->safe_point();
  EXPECT_EQ(signals(), 1);
  EXPECT_EQ(target_->shared().signal_tid, tid);
  EXPECT_TRUE(point_->close());
  EXPECT_FALSE(point_->close());
}

// A pass that is answered in time is stopped itself; tried until the answer was in time.
TEST_F(SafePointTest, TheThreadThatKnocksWaitsForTheAnswer) {
  // Nothing else runs on its processor while it waits.
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  for (int round = 0; signals() == 0; ++round) {
    ASSERT_LT(round, 1000) << "no pass waited";
    point_->watch();
    std::thread answer([&] {
      if (const auto hit = wait()) point_->open(*hit, SIGURG, kLong);
    });
    target_->safe_point();
    answer.join();
    point_->close();
  }
  EXPECT_EQ(signals(), 1);
}

TEST_F(SafePointTest, ALeaseThatIsOverSendsNothing) {
  point_->watch();
  target_->safe_point();
  const auto hit = wait();
  ASSERT_TRUE(hit);
  point_->open(*hit, SIGURG, milliseconds(0));
  target_->safe_point();
  EXPECT_EQ(signals(), 0);
  point_->renew(kLong);
  target_->safe_point();
  EXPECT_EQ(signals(), 1);
}

TEST_F(SafePointTest, ClosedItSendsNothing) {
  point_->watch();
  target_->safe_point();
  const auto hit = wait();
  ASSERT_TRUE(hit);
  point_->open(*hit, SIGURG, kLong);
  EXPECT_FALSE(point_->close());
  target_->safe_point();
  point_->watch();
  point_.reset();
  target_->safe_point();
  EXPECT_EQ(signals(), 0);
}

TEST_F(SafePointTest, OnlyTheThreadThatItIsOpenFor) {
  point_->watch();
  target_->safe_point();
  auto hit = wait();
  ASSERT_TRUE(hit);
  ++hit->tid;
  point_->open(*hit, SIGURG, kLong);
  target_->safe_point();
  EXPECT_EQ(signals(), 0);
}

TEST_F(SafePointTest, WhoIsSkippedDoesNotKnock) {
  point_->watch();
  target_->safe_point();
  const auto hit = wait();
  ASSERT_TRUE(hit);
  point_->skip(*hit);
  point_->watch();
  target_->safe_point();
  EXPECT_FALSE(wait(milliseconds(0)));
  point_->skip_none();
  target_->safe_point();
  EXPECT_TRUE(wait());
}

TEST_F(SafePointTest, WaitingEndsWhenItIsCancelled) {
  point_->watch();
  ASSERT_EQ(::eventfd_write(cancel_.get(), 1), 0);
  EXPECT_FALSE(wait());
}

}  // namespace
}  // namespace memprofd
