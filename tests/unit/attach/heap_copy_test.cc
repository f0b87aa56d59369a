// SPDX-License-Identifier: Apache-2.0
// Copied processes that crash, hang or end early. tests/e2e/test_heap.py copies real programs.
#include "daemon/attach/inject/heap_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "daemon/discover/proc_fs.h"

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

// True if the process has ended and been reaped.
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

TEST(CopyProcess, OnlyWeSeeACrash) {
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

// A child with that number, which waits; 0: it cannot be had.
pid_t child_numbered(pid_t number) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&number);
  arguments.set_tid_size = 1;
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  while (pid == 0) ::pause();
  return pid == number ? number : 0;
}

// A process of two threads, the second of which calls exec on command.
class Couple {
 public:
  Couple() {
    if (::pipe(told_) != 0 || ::pipe(tell_) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      std::thread([this] {
        second_ = static_cast<pid_t>(::syscall(SYS_gettid));
        if (::write(told_[1], &second_, sizeof second_) < 0) ::_exit(1);
        char byte;
        if (::read(tell_[0], &byte, 1) != 1) ::_exit(1);
        ::execlp("sleep", "sleep", "1000", nullptr);
        ::_exit(127);
      }).detach();
      for (;;) ::pause();
    }
    EXPECT_EQ(static_cast<ssize_t>(sizeof second_), ::read(told_[0], &second_, sizeof second_));
  }
  ~Couple() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, __WALL);
    for (const int end : {told_[0], told_[1], tell_[0], tell_[1]}) ::close(end);
  }
  Couple(const Couple&) = delete;
  Couple& operator=(const Couple&) = delete;

  pid_t pid() const { return pid_; }
  pid_t second() const { return second_; }
  void exec() {
    const std::string before = ProcFs().exe(pid_).value();
    EXPECT_EQ(1, ::write(tell_[1], "x", 1));
    // In between it briefly has no program.
    for (auto now = ProcFs().exe(pid_); !now.ok() || *now == before; now = ProcFs().exe(pid_)) {
      std::this_thread::yield();
    }
  }
  // A process that was sent SIGKILL no longer stops.
  bool lives() const {
    siginfo_t info{};
    ::kill(pid_, SIGSTOP);
    const int rc = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT);
    ::kill(pid_, SIGCONT);
    return rc == 0 && info.si_code == CLD_STOPPED;
  }
  // Makes it a stopped tracee of this thread.
  static void seize(pid_t tid) {
    ASSERT_EQ(0, ::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr)) << strerror(errno);
    ASSERT_EQ(0, ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr));
    int status = 0;
    ASSERT_EQ(tid, ::waitpid(tid, &status, __WALL));
  }

 private:
  int told_[2] = {-1, -1}, tell_[2] = {-1, -1};
  pid_t pid_ = 0, second_ = 0;
};

TEST(CopyProcess, AThreadIsNotAProcess) {
  Couple couple;
  Couple::seize(couple.second());
  {
    CopyProcess process(couple.second());
    const absl::Status bound = process.bind();
    EXPECT_EQ(StatusCode::kAborted, bound.code());
    EXPECT_THAT(std::string(bound.message()), HasSubstr("not a process"));
  }
  EXPECT_TRUE(couple.lives());
  EXPECT_EQ(0, ProcFs().thread_status(couple.pid(), couple.second())->tracer_pid) << "it is let go";
  couple.exec();
  EXPECT_TRUE(couple.lives());
}

// A thread that calls exec gets its process's pid, without an event; its own can then be reused.
TEST(CopyProcess, TheNextProcessWithThePidIsNotKilled) {
  if (::geteuid() != 0) GTEST_SKIP() << "root alone chooses numbers";
  Couple couple;
  Couple::seize(couple.second());
  pid_t next = 0;
  {
    CopyProcess process(couple.second());
    EXPECT_EQ(StatusCode::kDeadlineExceeded, process.run_to_breakpoint(kShort).code());
    couple.exec();
    EXPECT_EQ(StatusCode::kAborted, process.run_to_breakpoint(kShort).code());
    next = child_numbered(couple.second());
    ASSERT_NE(0, next) << strerror(errno);
  }
  EXPECT_EQ(0, ::waitpid(next, nullptr, WNOHANG)) << "it has been killed";
  ::kill(next, SIGKILL);
  ::waitpid(next, nullptr, 0);
}

// After the exec of its second thread, the process with the copy's pid is no longer a copy.
TEST(CopyProcess, OneThatDisappearsSilentlyIsNotKilled) {
  Couple couple;
  // Traces from another thread, because a copy is not a child of the thread that traces it.
  std::thread([&] {
    Couple::seize(couple.pid());
    CopyProcess process(couple.pid());
    EXPECT_EQ(StatusCode::kDeadlineExceeded, process.run_to_breakpoint(kShort).code());
    couple.exec();
    EXPECT_EQ(StatusCode::kAborted, process.run_to_breakpoint(kShort).code());
  }).join();
  EXPECT_TRUE(couple.lives());
}

// Drops the capability of this thread only.
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
