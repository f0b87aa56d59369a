// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/target_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/util/fd.h"

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
  // This process is no other memprofd: one of its inspections still holds the program.
  EXPECT_THAT(std::string(second.status().message()),
              ::testing::HasSubstr("is being detached by this memprofd"));
  first.reset();
  EXPECT_TRUE(TargetLock::acquire(getpid(), kStart).ok());
}

// A failed check is not another memprofd.
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

// Connects to the lock of this pid until its queue is full.
class FilledQueue {
 public:
  FilledQueue() {
    const std::string name = "memprofd/" + std::to_string(getpid()) + "/" + std::to_string(kStart);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    address_ = address;
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  UniqueFd socket() const { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)); }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t length() const { return length_; }
  bool fill() {
    for (;;) {
      UniqueFd client = socket();
      if (!client) return false;
      const int rc = ::connect(client.get(), address(), length_);
      if (rc != 0) return errno == EAGAIN;
      clients_.push_back(std::move(client));
    }
  }

 private:
  sockaddr_un address_{};
  socklen_t length_ = 0;
  std::vector<UniqueFd> clients_;
};

TEST(TargetLock, HoldsWhoeverFillsItsQueue) {
  const auto held = TargetLock::acquire(getpid(), kStart);
  ASSERT_TRUE(held.ok()) << held.status();
  FilledQueue queue;
  ASSERT_TRUE(queue.fill()) << std::strerror(errno);
  EXPECT_EQ(TargetLock::acquire(getpid(), kStart).status().code(),
            absl::StatusCode::kAlreadyExists);
}

// Filling the queue of one's own name does not block the program.
TEST(TargetLock, AnotherUsersFullQueueIsIgnored) {
  if (::geteuid() != 0) GTEST_SKIP() << "root alone makes programs of other users";
  FilledQueue queue;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd told(ends[0]);
  UniqueFd tell(ends[1]);
  const pid_t other = ::fork();
  if (other == 0) {
    const bool changed = ::syscall(SYS_setresuid, 1000, 1000, 1000) == 0;
    const UniqueFd holder = queue.socket();
    const bool filled = changed && ::bind(holder.get(), queue.address(), queue.length()) == 0 &&
                        ::listen(holder.get(), 0) == 0 && queue.fill();
    if (::write(ends[1], filled ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  tell.reset();
  char filled = 'n';
  EXPECT_EQ(::read(ends[0], &filled, 1), 1);
  EXPECT_EQ(filled, 'y');
  EXPECT_TRUE(TargetLock::acquire(getpid(), kStart).ok());
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST(TargetLock, AReusedPidIsAnotherTarget) {
  const auto before = TargetLock::acquire(getpid(), kStart);
  const auto after = TargetLock::acquire(getpid(), kStart + 1);
  EXPECT_TRUE(before.ok());
  EXPECT_TRUE(after.ok());
}

}  // namespace
}  // namespace memprofd
