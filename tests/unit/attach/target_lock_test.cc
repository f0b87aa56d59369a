// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/target_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace memprofd {
namespace {

// No real process has this start time together with our pid.
constexpr std::uint64_t kStart = 0xfeedfacecafe;

TEST(TargetLock, OneHolderAtATime) {
  auto lock = TargetLock::acquire(getpid(), kStart);
  ASSERT_TRUE(lock.ok()) << lock.status();
  auto first = std::make_unique<TargetLock>(*std::move(lock));
  const auto second = TargetLock::acquire(getpid(), kStart);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(
      std::string(second.status().message()),
      ::testing::HasSubstr("already profiled by memprofd (pid " + std::to_string(getpid()) + ")"));
  first.reset();
  EXPECT_TRUE(TargetLock::acquire(getpid(), kStart).ok());
}

TEST(TargetLock, AReusedPidIsAnotherTarget) {
  const auto before = TargetLock::acquire(getpid(), kStart);
  const auto after = TargetLock::acquire(getpid(), kStart + 1);
  EXPECT_TRUE(before.ok());
  EXPECT_TRUE(after.ok());
}

}  // namespace
}  // namespace memprofd
