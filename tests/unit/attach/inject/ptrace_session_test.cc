// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/ptrace_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <functional>
#include <thread>

#include "daemon/discover/proc_fs.h"
#include "daemon/util/fd.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{20'000};  // only a failing test waits that long

// A child that runs `work`, killed at the end.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    work();
    ::_exit(0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, __WALL);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

bool is_urgent(const SignalStop& stop) { return stop.signal == SIGURG; }

// A process that is killed while it is attached to: the kernel refuses with EPERM.
TEST(PtraceSession, AProcessThatHasEndedIsNotAQuestionOfPermission) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(PtraceSession().seize(child).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(PtraceSession().seize(child).code(), absl::StatusCode::kNotFound);
}

TEST(PtraceSession, ATracerThatIsThereIsNamedAsSuch) {
  const Child child([] { ::pause(); });
  std::thread([&] {
    PtraceSession first;
    ASSERT_EQ(first.seize(child.pid()), absl::OkStatus());
    std::thread([&] {
      EXPECT_EQ(PtraceSession().seize(child.pid()).code(), absl::StatusCode::kAlreadyExists);
    }).join();
  }).join();
  // The end of the thread has let it go.
  std::thread([&] { EXPECT_EQ(PtraceSession().seize(child.pid()), absl::OkStatus()); }).join();
}

TEST(PtraceSession, TellsWhoSentASignalAndPassesOthersOn) {
  static volatile int handled;
  ::signal(SIGUSR1, [](int) { handled = 1; });  // before the child begins, which inherits it
  const Child child([] {
    while (!handled) ::usleep(100);
    ::raise(SIGURG);
    ::pause();
  });
  PtraceSession session;
  ASSERT_EQ(session.seize(child.pid()), absl::OkStatus());
  ASSERT_EQ(::kill(child.pid(), SIGURG), 0);
  const auto foreign = session.wait_signal(is_urgent, kLong);
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->code, SI_USER);
  ASSERT_EQ(session.resume(0), absl::OkStatus());
  // Its handler runs; otherwise the child would never raise its own signal.
  while (!session.gone()) {
    ASSERT_EQ(::kill(child.pid(), SIGUSR1), 0);
    if (const auto own = session.wait_signal(is_urgent, milliseconds(20))) {
      EXPECT_EQ(own->code, SI_TKILL);
      break;
    }
  }
  ::signal(SIGUSR1, SIG_DFL);
  ASSERT_FALSE(session.gone());
  EXPECT_EQ(session.release(), absl::OkStatus());
}

TEST(PtraceSession, TimeInWhichTheUserStoppedItDoesNotCount) {
  const Child child([] {
    for (;;) ::usleep(100);
  });
  PtraceSession session;
  ASSERT_EQ(session.seize(child.pid()), absl::OkStatus());
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  std::thread user([&] {
    ::usleep(300'000);  // the fault: for longer than the patience
    ::kill(child.pid(), SIGCONT);
    ::kill(child.pid(), SIGURG);
  });
  EXPECT_TRUE(session.wait_signal(is_urgent, milliseconds(200)));
  user.join();
}

TEST(PtraceSession, AnExecIsTold) {
  int seized[2];
  ASSERT_EQ(::pipe2(seized, O_CLOEXEC), 0);
  const UniqueFd read_end(seized[0]), write_end(seized[1]);
  const Child child([&] {
    char byte;
    if (::read(read_end.get(), &byte, 1) == 1) ::execl("/bin/sleep", "sleep", "600", nullptr);
  });
  PtraceSession session;
  ASSERT_EQ(session.seize(child.pid()), absl::OkStatus());
  ASSERT_EQ(::write(write_end.get(), "", 1), 1);
  EXPECT_FALSE(session.wait_signal(is_urgent, kLong));
  EXPECT_TRUE(session.gone());
  EXPECT_TRUE(session.exec_seen());
}

TEST(PtraceSession, StopsBehindASystemCall) {
  const Child child([] {
    ::raise(SIGURG);
    for (;;) ::syscall(SYS_lseek, 4711, 0, 0);
  });
  PtraceSession session;
  ASSERT_EQ(session.seize(child.pid()), absl::OkStatus());
  while (!session.wait_signal(is_urgent, milliseconds(20))) ::kill(child.pid(), SIGURG);
  const auto result = session.run_to_system_call(SYS_lseek, 4711, kLong);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, -EBADF);
  EXPECT_EQ(session.run_to_system_call(SYS_getpid, 0, milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

// Waits until the thread of that process sleeps in a system call.
std::function<bool()> sleeps(pid_t pid) {
  return [pid] {
    const auto call = ProcFs().sleeping_call(pid, pid);
    return call.ok() && call->has_value();
  };
}

int end_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, __WALL), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Stops the child in its wait, has the kernel forget nothing, and leaves it waiting.
void interrupt_once(PtraceSession& session, pid_t pid) {
  while (!sleeps(pid)()) ::usleep(100);
  ASSERT_EQ(session.interrupt(false, kLong), absl::OkStatus());
  const auto state = session.state();
  ASSERT_TRUE(state.ok()) << state.status();
  // As after a call: the exit of the system call again, then the event.
  user_regs_struct anew = state->regs;
  anew.rip -= 2;
  anew.rax = anew.orig_rax;
  anew.orig_rax = ~0ULL;
  ASSERT_EQ(session.set_registers(anew), absl::OkStatus());
  ASSERT_EQ(session.interrupt(true, kLong), absl::OkStatus());
  session.continue_waiting(state->regs, state->regs.rip - 2, sleeps(pid), kLong);
}

TEST(PtraceSession, ASleepGoesOnWithTheTimeThatIsLeft) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    timespec begin{}, end{};
    const timespec sleep{0, 300'000'000};
    ::clock_gettime(CLOCK_MONOTONIC, &begin);
    const bool slept = ::nanosleep(&sleep, nullptr) == 0;
    ::clock_gettime(CLOCK_MONOTONIC, &end);
    const double passed = static_cast<double>(end.tv_sec - begin.tv_sec) +
                          static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9;
    ::_exit(slept && passed >= 0.3 ? 0 : 1);
  }
  std::thread([pid] {
    PtraceSession session;
    ASSERT_EQ(session.seize(pid), absl::OkStatus());
    interrupt_once(session, pid);
    interrupt_once(session, pid);
  }).join();
  EXPECT_EQ(end_of(pid), 0);
}

TEST(PtraceSession, ASignalFindsTheWaitAsItWas) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    char byte = 0;
    const bool interrupted = ::read(pipe[0], &byte, 1) == -1 && errno == EINTR;
    const bool is_read = ::read(pipe[0], &byte, 1) == 1;
    ::_exit(interrupted && is_read ? 0 : 1);
  }
  std::thread([&] {
    PtraceSession session;
    ASSERT_EQ(session.seize(pid), absl::OkStatus());
    interrupt_once(session, pid);
    ASSERT_EQ(::kill(pid, SIGUSR1), 0);
    // The signal is passed on, and the next wait begins.
    const auto has_signal = [&] {
      const auto status = ProcFs().status(pid);
      return status.ok() && status->state == 't';
    };
    while (!has_signal()) ::usleep(100);
    session.watch_thread(pid);
    while (!sleeps(pid)()) ::usleep(100);
    interrupt_once(session, pid);
    ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  }).join();
  EXPECT_EQ(end_of(pid), 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace memprofd
