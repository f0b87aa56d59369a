// SPDX-License-Identifier: Apache-2.0
// What becomes of a copy that does not do what it should. Copies of real programs:
// tests/e2e/test_heap.py.
#include "daemon/attach/inject/heap_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <new>
#include <string>
#include <thread>

namespace memprofd {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
constexpr std::chrono::milliseconds kLong{20'000};
constexpr std::chrono::milliseconds kShort{50};

// A stopped tracee of this thread, which then does that.
template <typename Work>
pid_t tracee(Work work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(pid, ::waitpid(pid, &status, 0));
  EXPECT_TRUE(WIFSTOPPED(status));
  return pid;
}

// Ended and collected.
bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

void breakpoint() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  __asm__ volatile("int3");
}

TEST(CopyProcess, RunsToItsBreakpointAndIsKilled) {
  const pid_t pid = tracee(breakpoint);
  {
    CopyProcess process(pid);
    EXPECT_TRUE(process.bind().ok());
    EXPECT_TRUE(process.run_to_breakpoint(kLong).ok());
    EXPECT_FALSE(is_gone(pid));
    const CopyProcess moved(std::move(process));
    EXPECT_EQ(pid, moved.pid());
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST(CopyProcess, ACrashIsSeenByUsAlone) {
  const pid_t pid = tracee([] { ::raise(SIGSEGV); });
  {
    CopyProcess process(pid);
    const absl::Status status = process.run_to_breakpoint(kLong);
    EXPECT_EQ(StatusCode::kAborted, status.code());
    EXPECT_THAT(std::string(status.message()), HasSubstr("by signal 11"));
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST(CopyProcess, OneThatDoesNotComeToItsEndIsKilled) {
  const pid_t pid = tracee([] {
    for (;;) ::pause();
  });
  {
    CopyProcess process(pid);
    EXPECT_EQ(StatusCode::kDeadlineExceeded, process.run_to_breakpoint(kShort).code());
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST(CopyProcess, OneThatHasEndedIsNotTouchedAgain) {
  const pid_t pid = tracee([] {});
  CopyProcess process(pid);
  EXPECT_EQ(StatusCode::kAborted, process.run_to_breakpoint(kLong).code());
  EXPECT_TRUE(is_gone(pid));
  EXPECT_EQ(0, process.pid());
  EXPECT_EQ(StatusCode::kAborted, process.bind().code());
}

TEST(CopyProcess, EndsWithTheThreadThatTracesIt) {
  pid_t pid = 0;
  std::thread([&] {
    pid = tracee([] {
      for (;;) ::pause();
    });
    // Never destroyed, as when its owner is killed.
    alignas(CopyProcess) std::byte room[sizeof(CopyProcess)];
    auto* process = new (room) CopyProcess(pid);
    EXPECT_TRUE(process->bind().ok());
    EXPECT_EQ(StatusCode::kDeadlineExceeded, process->run_to_breakpoint(kShort).code());
  }).join();
  int status = 0;
  EXPECT_EQ(pid, ::waitpid(pid, &status, __WALL));
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(SIGKILL, WTERMSIG(status));
}

// Of this thread alone.
void give_up_cap_kill() {
  __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(0, ::syscall(SYS_capget, &head, data));
  data[0].effective &= ~(1u << CAP_KILL);
  ASSERT_EQ(0, ::syscall(SYS_capset, &head, data));
}

// memprofd may lack the capability to send signals to other users' programs.
TEST(CopyProcess, OneOfAnotherUserIsKilledToo) {
  if (::geteuid() != 0) GTEST_SKIP() << "root alone has programs of other users";
  std::thread([] {
    const auto become_another = [] { ::syscall(SYS_setresuid, 1000, 1000, 1000); };
    const pid_t stopped = tracee([&] {
      become_another();
      breakpoint();
    });
    const pid_t running = tracee([&] {
      become_another();
      for (;;) ::pause();
    });
    give_up_cap_kill();
    {
      CopyProcess at_breakpoint(stopped), not_there(running);
      EXPECT_TRUE(at_breakpoint.bind().ok() && not_there.bind().ok());
      EXPECT_TRUE(at_breakpoint.run_to_breakpoint(kLong).ok());
      EXPECT_EQ(StatusCode::kDeadlineExceeded, not_there.run_to_breakpoint(kShort).code());
      EXPECT_EQ(-1, ::kill(stopped, SIGKILL));
      EXPECT_EQ(-1, ::kill(running, SIGKILL));
    }
    EXPECT_TRUE(is_gone(stopped));
    EXPECT_TRUE(is_gone(running));
  }).join();
}

TEST(HeapCopy, AnAgentWithoutTheFunctionIsRefused) {
  const auto file = ElfFile::open("/proc/self/exe", "this program");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto agent = find_copy_agent(**file, 0x1000);
  EXPECT_EQ(StatusCode::kFailedPrecondition, agent.status().code());
  EXPECT_THAT(std::string(agent.status().message()), HasSubstr("takes no snapshots"));
}

}  // namespace
}  // namespace memprofd
