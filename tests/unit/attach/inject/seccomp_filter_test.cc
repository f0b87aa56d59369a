// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/seccomp_filter.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <random>
#include <thread>

#include "daemon/attach/inject/ptrace_session.h"

namespace memprofd {
namespace {

sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
const sock_filter kNumber = load(offsetof(seccomp_data, nr));
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
constexpr sock_filter kRefuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
constexpr sock_filter kKill = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
sock_filter when(std::uint16_t operation, std::uint32_t value, int yes, int no) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | operation), value,
                  static_cast<std::uint8_t>(yes), static_cast<std::uint8_t>(no));
}

constexpr FilteredCall kMmap{SYS_mmap, "mmap", {}};
constexpr FilteredCall kClone{SYS_clone, "clone", 0x2400};
constexpr FilteredCall kAnyClone{SYS_clone, "clone", {}};

// Like a container runtime's filter: by architecture, number, and the flags of clone.
SeccompFilter like_a_containers() {
  return {load(offsetof(seccomp_data, arch)),
          when(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
          kKill,
          kNumber,
          when(BPF_JEQ, SYS_mmap, 4, 0),
          when(BPF_JEQ, SYS_clone, 0, 2),
          load(offsetof(seccomp_data, args)),
          when(BPF_JSET, 0x7E020000, 0, 1),
          kRefuse,
          kAllow};
}

TEST(SeccompFilter, IsRunForWhatIsKnownOfACall) {
  const SeccompFilter filter = like_a_containers();
  EXPECT_EQ(strictest_action(filter, kMmap), SECCOMP_RET_ALLOW);
  EXPECT_EQ(strictest_action(filter, kClone), SECCOMP_RET_ALLOW);
  EXPECT_EQ(strictest_action(filter, kAnyClone), SECCOMP_RET_ERRNO) << "by flags that it may have";
  EXPECT_EQ(strictest_action(filter, {SYS_ptrace, "ptrace", {}}), SECCOMP_RET_ERRNO);
}

TEST(SeccompFilter, TheStrictestOfAllWaysCounts) {
  const SeccompFilter filter{load(offsetof(seccomp_data, instruction_pointer)),
                             when(BPF_JEQ, 7, 0, 1), kKill, kAllow};
  EXPECT_EQ(strictest_action(filter, kMmap), SECCOMP_RET_KILL_PROCESS);
  const SeccompFilter computed{kNumber,
                               BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),
                               BPF_STMT(BPF_ST, 3),
                               BPF_STMT(BPF_LDX | BPF_MEM, 3),
                               BPF_STMT(BPF_LD | BPF_IMM, SYS_mmap + 1),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
                               kAllow,
                               kKill};
  EXPECT_EQ(strictest_action(computed, kMmap), SECCOMP_RET_ALLOW);
}

TEST(SeccompFilter, WhatTheKernelWouldNotTakeKills) {
  for (const SeccompFilter& filter :
       {SeccompFilter{}, SeccompFilter{kNumber}, SeccompFilter{when(BPF_JEQ, 0, 200, 200), kAllow},
        SeccompFilter{BPF_STMT(BPF_ST, 99), kAllow},
        SeccompFilter{BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0), kAllow},
        SeccompFilter{load(56), BPF_STMT(BPF_RET | BPF_A, 0)}}) {
    EXPECT_EQ(strictest_action(filter, kMmap), SECCOMP_RET_KILL_PROCESS) << filter.size();
  }
  // 2^1000 ways.
  SeccompFilter wide;
  for (int i = 0; i < 1000; ++i) {
    wide.push_back(load(56));
    wide.push_back(when(BPF_JEQ, 1, 1, 0));
    wide.push_back(BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1));
  }
  wide.push_back(kAllow);
  EXPECT_EQ(strictest_action(wide, kMmap), SECCOMP_RET_KILL_PROCESS);
}

TEST(SeccompFilter, EachOfTheFiltersHasToAgree) {
  const SeccompFilter all{kAllow}, no_mmap{kNumber, when(BPF_JEQ, SYS_mmap, 0, 1), kRefuse, kAllow};
  const FilteredCall calls[] = {kClone, kMmap};
  EXPECT_EQ(first_refused({}, calls), nullptr);
  EXPECT_EQ(first_refused(std::vector{all, like_a_containers()}, calls), nullptr);
  const FilteredCall* const refused = first_refused(std::vector{all, no_mmap}, calls);
  ASSERT_NE(refused, nullptr);
  EXPECT_STREQ(refused->name, "mmap");
}

// ----------------------------------------------------------------- as the kernel has it

constexpr std::uint32_t kNoCall = 600;  // and the 8 after it
constexpr int kFiltered = 77;

// Jumps, loads and computations at random; calls below kNoCall are the child's own.
SeccompFilter random_filter(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  SeccompFilter filter{kNumber, when(BPF_JGE, kNoCall, 1, 0), kAllow};
  constexpr int kLength = 24;
  for (int i = 0; i < kLength; ++i) {
    const int left = kLength - i;
    const auto value = static_cast<std::uint32_t>(pick(2) == 0 ? kNoCall + pick(8) : pick(4));
    switch (pick(6)) {
      case 0:
        filter.push_back(load(4 * static_cast<std::size_t>(pick(16))));
        break;
      case 1:
        filter.push_back(kNumber);
        break;
      case 2:
        filter.push_back(BPF_STMT(BPF_ALU | BPF_K | (pick(8) << 4 & ~0x30), value | 1));
        break;
      case 3:
        filter.push_back(BPF_STMT(pick(2) == 0 ? BPF_MISC | BPF_TAX : BPF_MISC | BPF_TXA, 0));
        break;
      default: {
        constexpr std::uint16_t kOperations[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
        filter.push_back(when(kOperations[pick(4)], value, pick(left + 1), pick(left + 1)));
      }
    }
  }
  filter.push_back(kAllow);
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | kFiltered));
  return filter;
}

// One bit for each call that the kernel allows; nullopt: it rejects the filter.
std::optional<unsigned> passed_by_kernel(const SeccompFilter& filter) {
  const pid_t child = ::fork();
  if (child == 0) {
    const sock_fprog program{static_cast<unsigned short>(filter.size()),
                             const_cast<sock_filter*>(filter.data())};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(0);
    // The allowed calls in two halves, because an exit status has 8 bits.
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(0);
    unsigned passed = 0;
    for (unsigned i = 0; i < 7; ++i) {
      if (::syscall(kNoCall + i, i, 2, 3, 0, 1, 2) < 0 && errno != kFiltered) passed |= 1u << i;
    }
    ::_exit(static_cast<int>(0x80 | passed));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const unsigned code = WIFEXITED(status) ? static_cast<unsigned>(WEXITSTATUS(status)) : 0;
  return (code & 0x80) != 0 ? std::optional(code & 0x7f) : std::nullopt;
}

TEST(SeccompFilter, WhatPassesHerePassesInTheKernel) {
  std::mt19937 random(17);
  int taken = 0, passes = 0, refuses = 0;
  for (int i = 0; i < 300; ++i) {
    const SeccompFilter filter = random_filter(random);
    const auto passed = passed_by_kernel(filter);
    if (!passed) continue;
    ++taken;
    for (unsigned call = 0; call < 7; ++call) {
      const bool here =
          strictest_action(filter, {kNoCall + call, "", std::uint64_t{call}}) == SECCOMP_RET_ALLOW;
      const bool there = (*passed >> call & 1) != 0;
      EXPECT_TRUE(there || !here) << "filter " << i << ", call " << call;
      passes += here;
      refuses += !there;
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(passes, 100);
  EXPECT_GT(refuses, 100);
}

TEST(SeccompFilter, ThreadsAreCompared) {
  const absl::StatusOr<ProcessStatus> own = ProcFs().status_of_self();
  ASSERT_TRUE(own.ok()) << own.status();
  ProcessStatus other = *own;
  ++other.seccomp_filters;
  EXPECT_TRUE(has_one_set_of_filters(::getpid(), *own).value());
  EXPECT_FALSE(has_one_set_of_filters(::getpid(), other).value());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(absl::IsNotFound(has_one_set_of_filters(child, *own).status()))
      << "one that has ended does not differ";
}

TEST(SeccompFilter, AThreadsFiltersAreRead) {
  ASSERT_EQ(why_filters_are_hidden(), "") << "root, without a filter";
  const SeccompFilter first{kAllow}, second = like_a_containers();
  int seized[2];
  ASSERT_EQ(::pipe(seized), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    SeccompFilter open = second;  // for what the child does
    open[8] = kAllow;
    for (const SeccompFilter& filter : {first, open}) {
      const sock_fprog program{static_cast<unsigned short>(filter.size()),
                               const_cast<sock_filter*>(filter.data())};
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    char go;
    if (::read(seized[0], &go, 1) == 1) ::raise(SIGURG);
    ::_exit(0);
  }
  std::thread([&] {
    PtraceSession session;
    ASSERT_EQ(session.seize(child), absl::OkStatus());
    ASSERT_EQ(::write(seized[1], "", 1), 1);
    const auto any = [](const SignalStop&) { return true; };
    ASSERT_TRUE(session.wait_signal(any, std::chrono::seconds(20)));
    const auto filters = session.filters();
    ASSERT_TRUE(filters.ok()) << filters.status();
    ASSERT_EQ(filters->size(), 2u);
    EXPECT_EQ((*filters)[0].size(), first.size());
    EXPECT_EQ((*filters)[1].size(), second.size());
  }).join();
  ::close(seized[0]);
  ::close(seized[1]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace memprofd
