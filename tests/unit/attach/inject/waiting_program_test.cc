// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/waiting_program.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "daemon/util/clock.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kLong{20'000};
constexpr int kTimeoutMs = 300;

user_regs_struct stopped_in(long number, long result) {
  user_regs_struct regs{};
  regs.rip = 0x1002;
  regs.orig_rax = static_cast<std::uint64_t>(number);
  regs.rax = static_cast<std::uint64_t>(result);
  regs.r10 = 77;
  return regs;
}

TEST(InterruptedCall, BeginsAnewAtItsInstruction) {
  const InterruptedCall call(stopped_in(SYS_read, -512), std::nullopt);
  EXPECT_EQ(call.restarted().rip, 0x1000u);
  EXPECT_EQ(call.restarted().rax, static_cast<std::uint64_t>(SYS_read));
  EXPECT_EQ(call.restarted().orig_rax, ~0ULL);
  EXPECT_EQ(call.instruction(), 0x1000u);
}

TEST(InterruptedCall, GoesOnAsTheKernelHadIt) {
  const InterruptedCall call(stopped_in(SYS_nanosleep, -516), std::nullopt);
  EXPECT_EQ(call.resumed().rax, static_cast<std::uint64_t>(-516));
  EXPECT_EQ(call.resumed().rip, 0x1002u);
  EXPECT_EQ(call.resumed().r10, 77u);
  // A program that returns EINTR itself must see it.
  const InterruptedCall other(stopped_in(SYS_rt_sigtimedwait, -EINTR), std::nullopt);
  EXPECT_EQ(other.resumed().rax, static_cast<std::uint64_t>(-EINTR));
}

TEST(InterruptedCall, EpollGoesOnWithTheTimeThatIsLeft) {
  const InterruptedCall forever(stopped_in(SYS_epoll_wait, -EINTR), std::nullopt);
  EXPECT_EQ(forever.resumed().rax, static_cast<std::uint64_t>(-514));
  EXPECT_EQ(forever.resumed().r10, 77u);
  const InterruptedCall over(stopped_in(SYS_epoll_wait, -EINTR), 1);
  EXPECT_EQ(over.resumed().r10, 0u);
  const InterruptedCall timed(stopped_in(SYS_epoll_wait, -EINTR),
                              monotonic_ns() + 3'600'000'000'000);
  EXPECT_LE(timed.resumed().r10, 3'600'000u);
  EXPECT_GT(timed.resumed().r10, 3'000'000u);
}

// The kernel itself would return EINTR.
TEST(InterruptedCall, EpollWaitsOn) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int epoll = ::epoll_create1(0);
    epoll_event event{};
    const std::uint64_t begin = monotonic_ns();
    const bool is_over = ::epoll_wait(epoll, &event, 1, kTimeoutMs) == 0;
    ::_exit(is_over && monotonic_ns() - begin >= kTimeoutMs * 1'000'000ull ? 0 : 1);
  }
  std::thread([pid] {
    const auto sleeps = [pid] {
      const auto call = ProcFs().sleeping_call(pid, pid);
      return call.ok() && call->has_value() && (*call)->number == SYS_epoll_wait;
    };
    while (!sleeps()) ::usleep(100);
    const std::uint64_t end = monotonic_ns() + kTimeoutMs * 1'000'000ull;
    PtraceSession session;
    ASSERT_EQ(session.seize(pid), absl::OkStatus());
    ASSERT_EQ(session.interrupt(false, kLong), absl::OkStatus());
    const auto state = session.state();
    ASSERT_TRUE(state.ok()) << state.status();
    ASSERT_EQ(static_cast<long>(state->regs.rax), -EINTR);
    const InterruptedCall call(state->regs, end);
    session.continue_waiting(call.resumed(), call.instruction(), sleeps, kLong);
  }).join();
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, __WALL), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace memprofd
