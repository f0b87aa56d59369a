// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/target_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
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
  // This process is no other memprofd: one of its looks has the program still.
  EXPECT_THAT(std::string(second.status().message()),
              ::testing::HasSubstr("is being let go of by this memprofd"));
  first.reset();
  EXPECT_TRUE(TargetLock::acquire(getpid(), kStart).ok());
}

// Not being able to ask is no other memprofd.
TEST(TargetLock, WithoutDescriptorsItNamesTheLimit) {
  const auto held = TargetLock::acquire(getpid(), kStart);
  ASSERT_TRUE(held.ok()) << held.status();
  const int next = ::dup(STDIN_FILENO);
  ::close(next);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto acquire_with = [&](int descriptors) {
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next + descriptors),
                     .rlim_max = before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const absl::Status status = TargetLock::acquire(getpid(), kStart).status();
    ::setrlimit(RLIMIT_NOFILE, &before);
    return status;
  };
  const absl::Status none = acquire_with(0);
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted) << none;
  EXPECT_THAT(std::string(none.message()),
              ::testing::AllOf(::testing::HasSubstr("pid " + std::to_string(getpid())),
                               ::testing::HasSubstr("its limit is " + std::to_string(next)),
                               ::testing::HasSubstr("LimitNOFILE=")));
  EXPECT_EQ(acquire_with(1).code(), absl::StatusCode::kAlreadyExists);
}

TEST(TargetLock, AReusedPidIsAnotherTarget) {
  const auto before = TargetLock::acquire(getpid(), kStart);
  const auto after = TargetLock::acquire(getpid(), kStart + 1);
  EXPECT_TRUE(before.ok());
  EXPECT_TRUE(after.ok());
}

}  // namespace
}  // namespace memprofd
