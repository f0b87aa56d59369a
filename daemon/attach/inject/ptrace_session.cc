// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/ptrace_session.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Larger than any x86 extended state today (AMX: about 11 KB).
constexpr std::size_t kMaxXstateBytes = 64u << 10;
// The status of waitpid for a stop at a system call.
constexpr int kSystemCallStop = SIGTRAP | 0x80;
// A stopped program waits for memprofd, so its status is polled often at first.
constexpr auto kEarlyPoll = std::chrono::microseconds(20);
constexpr auto kLatePoll = std::chrono::microseconds(200);
constexpr auto kAtOnce = std::chrono::milliseconds(5);

bool is_group_stop(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

}  // namespace

// A time limit. Time in which the user has stopped the program does not count, up to
// kStoppedPatience.
class PtraceSession::Patience {
 public:
  explicit Patience(std::chrono::milliseconds time)
      : begin_(Clock::now()), end_(begin_ + time), last_(end_ + kStoppedPatience) {}
  bool is_over() const { return Clock::now() >= end_; }
  void poll(bool stopped_by_user) {
    const auto before = Clock::now();
    std::this_thread::sleep_for(before < begin_ + kAtOnce ? kEarlyPoll : kLatePoll);
    if (stopped_by_user) end_ = std::min(end_ + (Clock::now() - before), last_);
  }

 private:
  Clock::time_point begin_;
  Clock::time_point end_;
  Clock::time_point last_;
};

absl::Status PtraceSession::error(const char* what) const {
  const int error = errno;
  const std::string text =
      absl::StrCat("ptrace ", what, " of thread ", tid_, ": ", strerror(error));
  if (error == ESRCH) return absl::NotFoundError(text);
  if (error == EPERM) return absl::PermissionDeniedError(text);
  return absl::InternalError(text);
}

absl::Status PtraceSession::seize(pid_t tid) {
  tid_ = tid;
  if (ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) == 0)
    return absl::OkStatus();
  absl::Status refused = error("seize");
  tid_ = 0;
  // The kernel returns EPERM for a thread that has ended, too.
  const auto status = ProcFs().status(tid);
  if (!status.ok() || status->has_ended())
    return absl::NotFoundError(absl::StrCat("thread ", tid, " ended"));
  if (status->tracer_pid != 0) return absl::AlreadyExistsError(refused.message());
  return refused;
}

// Resumes the thread after an event that is not a signal. Returns false for a signal.
bool PtraceSession::pass_event(int status) {
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    tid_ = 0;
    return true;
  }
  stopped_by_user_ = false;
  const int event = status >> 16;
  if (event == 0) return false;
  if (event == PTRACE_EVENT_STOP && is_group_stop(WSTOPSIG(status))) {
    // Keeps the thread stopped, as its user wants, and continues to receive its events.
    stopped_by_user_ = ptrace(PTRACE_LISTEN, tid_, nullptr, nullptr) == 0;
  } else if (event == PTRACE_EVENT_EXEC) {
    exec_seen_ = true;
    (void)release();
    tid_ = 0;
  } else {
    (void)resume(0);
  }
  return true;
}

// Returns the next stop that is not an event, in waitpid's form, or nothing if the thread has gone
// or time is up.
std::optional<int> PtraceSession::next_stop(Patience& patience) {
  while (!gone() && !patience.is_over()) {
    int status = 0;
    // Waits for any child, because a thread that calls exec may get another number.
    const pid_t tid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (tid < 0 && errno == ECHILD) tid_ = 0;
    if (tid <= 0) {
      if (!gone()) patience.poll(stopped_by_user_ && !(given_up_ != nullptr && *given_up_));
      continue;
    }
    if (is_child(tid, status)) {
      child_ = tid;
      continue;
    }
    tid_ = tid;
    if (!pass_event(status)) return status;
  }
  return std::nullopt;
}

// A thread that gets another number by exec reports another event.
bool PtraceSession::is_child(pid_t tid, int status) const {
  return expects_child_ && tid != tid_ && WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
}

// Checks once more when the time is over, because this process itself may have been stopped.
std::optional<pid_t> PtraceSession::wait_child(std::chrono::milliseconds time) {
  Patience patience(time);
  for (bool is_last = false; child_ == 0;) {
    int status = 0;
    const pid_t tid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (tid < 0 || (tid == 0 && is_last)) return std::nullopt;
    if (tid > 0 && is_child(tid, status)) {
      child_ = tid;
    } else if (tid > 0 && tid == tid_) {
      pass_stop(status);
    } else if (tid == 0) {
      is_last = patience.is_over();
      patience.poll(false);
    }
  }
  return std::exchange(child_, 0);
}

std::optional<SignalStop> PtraceSession::wait_signal(
    const std::function<bool(const SignalStop&)>& wanted, std::chrono::milliseconds time) {
  Patience patience(time);
  while (const auto status = next_stop(patience)) {
    siginfo_t info{};
    SignalStop stop{WSTOPSIG(*status), 0};
    if (ptrace(PTRACE_GETSIGINFO, tid_, nullptr, &info) == 0) stop.code = info.si_code;
    if (wanted(stop)) return stop;
    (void)resume(stop.signal == kSystemCallStop ? 0 : stop.signal);
  }
  return std::nullopt;
}

absl::StatusOr<ThreadState> PtraceSession::state() const {
  ThreadState state;
  if (ptrace(PTRACE_GETREGS, tid_, nullptr, &state.regs) != 0) return error("getregs");
  if (ptrace(PTRACE_GETSIGMASK, tid_, sizeof(state.signal_mask), &state.signal_mask) != 0)
    return error("getsigmask");
  state.xstate.resize(kMaxXstateBytes);
  iovec iov{state.xstate.data(), state.xstate.size()};
  if (ptrace(PTRACE_GETREGSET, tid_, NT_X86_XSTATE, &iov) != 0) return error("getregset");
  state.xstate.resize(iov.iov_len);
  return state;
}

absl::StatusOr<std::vector<SeccompFilter>> PtraceSession::filters() const {
  std::vector<SeccompFilter> filters;
  for (std::uintptr_t number = 0;; ++number) {
    const auto which = std::bit_cast<void*>(number);
    const long length = ptrace(PTRACE_SECCOMP_GET_FILTER, tid_, which, nullptr);
    if (length < 0 && errno == ENOENT) return filters;
    if (length < 0 && errno == EACCES) {
      return absl::PermissionDeniedError("the kernel does not show seccomp filters");
    }
    if (length < 0) return error("filter");
    filters.emplace_back(static_cast<std::size_t>(length));
    if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid_, which, filters.back().data()) != length) {
      return error("filter");
    }
  }
}

absl::Status PtraceSession::set_registers(const user_regs_struct& regs) const {
  if (ptrace(PTRACE_SETREGS, tid_, nullptr, &regs) != 0) return error("setregs");
  return absl::OkStatus();
}

// Names the thread by its id, which no other thread can get while it is seized.
absl::Status PtraceSession::write_stack(std::uint64_t address,
                                        std::span<const std::byte> bytes) const {
  // Grows the stack first, because process_vm_writev does not.
  std::uint64_t lowest = 0;
  std::memcpy(&lowest, bytes.data(), std::min(bytes.size(), sizeof lowest));
  if (absl::Status poked = poke(address, lowest); !poked.ok()) return poked;
  const iovec local = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec remote = {std::bit_cast<void*>(address), bytes.size()};
  const ssize_t n = process_vm_writev(tid_, &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  if (n >= 0) errno = EFAULT;
  return error("write to the stack");
}

absl::StatusOr<std::uint64_t> PtraceSession::peek(std::uint64_t address) const {
  errno = 0;
  const long word = ptrace(PTRACE_PEEKDATA, tid_, address, nullptr);
  if (errno != 0) return error("peek");
  return static_cast<std::uint64_t>(word);
}

absl::Status PtraceSession::poke(std::uint64_t address, std::uint64_t word) const {
  if (ptrace(PTRACE_POKEDATA, tid_, address, word) != 0) return error("poke");
  return absl::OkStatus();
}

absl::Status PtraceSession::set_signal_mask(std::uint64_t mask) const {
  if (ptrace(PTRACE_SETSIGMASK, tid_, sizeof mask, &mask) != 0) return error("setsigmask");
  return absl::OkStatus();
}

absl::Status PtraceSession::resume(int signal) const {
  const auto request = at_system_calls_ ? PTRACE_SYSCALL : PTRACE_CONT;
  if (ptrace(request, tid_, nullptr, signal) != 0) return error("cont");
  return absl::OkStatus();
}

absl::Status PtraceSession::release() {
  if (ptrace(PTRACE_DETACH, tid_, nullptr, 0) != 0) return error("detach");
  tid_ = 0;
  return absl::OkStatus();
}

absl::Status PtraceSession::run_until(
    std::chrono::milliseconds time, const char* what,
    const std::function<bool(const __ptrace_syscall_info&)>& is_there) {
  Patience patience(time);
  at_system_calls_ = true;
  const absl::Cleanup no_more = [this] { at_system_calls_ = false; };
  for (int signal = 0;;) {
    RETURN_IF_ERROR(resume(signal));
    const auto status = next_stop(patience);
    if (!status) break;
    signal = WSTOPSIG(*status) == kSystemCallStop ? 0 : WSTOPSIG(*status);
    if (signal != 0) continue;
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid_, sizeof info, &info) < 0)
      return error("get_syscall_info");
    if (is_there(info)) return absl::OkStatus();
  }
  if (gone()) return absl::NotFoundError("the thread ended");
  return absl::DeadlineExceededError(absl::StrCat("the thread does not ", what, " in time"));
}

absl::StatusOr<std::int64_t> PtraceSession::run_to_system_call(std::uint64_t number,
                                                               std::uint64_t argument,
                                                               std::chrono::milliseconds time) {
  bool entered = false;
  std::int64_t result = 0;
  RETURN_IF_ERROR(run_until(time, "reach its system call", [&](const __ptrace_syscall_info& info) {
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
      entered = info.entry.nr == number && info.entry.args[0] == argument;
    if (info.op != PTRACE_SYSCALL_INFO_EXIT || !entered) return false;
    result = info.exit.rval;
    return true;
  }));
  return result;
}

absl::Status PtraceSession::run_to_return(std::uint64_t stack_pointer,
                                          std::chrono::milliseconds time) {
  return run_until(time, "return", [stack_pointer](const __ptrace_syscall_info& info) {
    return info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_rt_sigreturn &&
           info.stack_pointer == stack_pointer;
  });
}

absl::Status PtraceSession::interrupt(bool is_stopped, std::chrono::milliseconds time) {
  Patience patience(time);
  if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) return error("interrupt");
  if (is_stopped) RETURN_IF_ERROR(resume(0));
  while (!gone() && !patience.is_over()) {
    int status = 0;
    const pid_t tid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (tid < 0) break;
    if (tid == 0) {
      patience.poll(false);
    } else if (is_child(tid, status)) {
      child_ = tid;
    } else if (WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP &&
               WSTOPSIG(status) == SIGTRAP) {
      return absl::OkStatus();
    } else {
      tid_ = tid;
      pass_stop(status);
    }
  }
  if (gone()) return absl::NotFoundError("the thread ended");
  return absl::UnavailableError("it does not stop in time");
}

void PtraceSession::continue_waiting(const user_regs_struct& regs, std::uint64_t instruction,
                                     const std::function<bool()>& is_asleep,
                                     std::chrono::milliseconds time) {
  Patience patience(time);
  restart_ = {regs, instruction};
  if (!set_registers(regs).ok() || !resume(0).ok()) return;
  while (restart_ && !gone() && !patience.is_over()) {
    int status = 0;
    const pid_t tid = waitpid(tid_, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (tid > 0) {
      pass_stop(status);
    } else if (tid < 0 || is_asleep()) {
      break;
    } else {
      patience.poll(false);
    }
  }
  restart_.reset();
}

void PtraceSession::watch_thread(pid_t process) {
  for (const pid_t number : {tid_, process}) {
    int status = 0;
    if (gone() || waitpid(number, &status, __WALL | __WNOTHREAD | WNOHANG) <= 0) continue;
    tid_ = number;
    pass_stop(status);
  }
}

// Resumes the thread with the signal at which it stopped.
void PtraceSession::pass_stop(int status) {
  if (pass_event(status)) return;
  const int signal = WSTOPSIG(status) == kSystemCallStop ? 0 : WSTOPSIG(status);
  user_regs_struct now{};
  if (signal != 0 && restart_ && ptrace(PTRACE_GETREGS, tid_, nullptr, &now) == 0 &&
      now.rip == restart_->instruction) {
    (void)set_registers(restart_->regs);
    restart_.reset();  // its handler runs
  }
  (void)resume(signal);
}

}  // namespace memprofd
