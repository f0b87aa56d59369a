// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/waiting_program.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Values in rax of a call that the kernel resumes (include/linux/errno.h).
constexpr long kRestartSys = -512, kRestartNoIntr = -513, kRestartNoHand = -514,
               kRestartBlock = -516;
// Limit for the kernel to stop the thread.
constexpr std::chrono::milliseconds kStopPatience{1000};
constexpr std::uint64_t kSyscallBytes = 0x050f;  // the bytes of the instruction

// Calls that a stop interrupts and the kernel then resumes, with the remaining time and without
// partial effects.
struct WaitingCall {
  long number;
  std::string_view name;
  bool has_descriptor = false;  // its first argument is a descriptor that matters
};
constexpr WaitingCall kWaitingCalls[] = {
    {SYS_read, "read", true},
    {SYS_readv, "readv", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept4", true},
    {SYS_recvfrom, "recvfrom", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_poll, "poll"},
    {SYS_ppoll, "ppoll"},
    {SYS_select, "select"},
    {SYS_pselect6, "pselect6"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_futex, "futex"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_pause, "pause"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_flock, "flock"},
    {SYS_restart_syscall, "restart_syscall"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_epoll_pwait, "epoll_pwait"},
};

const WaitingCall* waiting_call(long number) {
  const auto* const at = std::ranges::find(kWaitingCalls, number, &WaitingCall::number);
  return at == std::end(kWaitingCalls) ? nullptr : at;
}

// The kernel returns EINTR for these.
bool is_epoll(long number) { return number == SYS_epoll_wait || number == SYS_epoll_pwait; }
// The runtime's tick thread waits in these calls, and cannot take the runtime lock.
bool may_be_tick(long number) { return number == SYS_select || number == SYS_pselect6; }

absl::Status not_now(const std::string& why) { return absl::UnavailableError(why); }

std::string name_of(long number) {
  const WaitingCall* const known = waiting_call(number);
  return known != nullptr ? std::string(known->name) : absl::StrCat("system call ", number);
}

}  // namespace

user_regs_struct InterruptedCall::restarted() const {
  user_regs_struct regs = regs_;
  regs.rip = instruction();
  regs.rax = regs.orig_rax;
  regs.orig_rax = ~0ULL;
  return regs;
}

user_regs_struct InterruptedCall::resumed() const {
  user_regs_struct regs = regs_;
  if (static_cast<long>(regs.rax) == -EINTR && is_epoll(static_cast<long>(regs.orig_rax))) {
    regs.rax = static_cast<std::uint64_t>(kRestartNoHand);
  }
  if (timeout_end_ns_) {
    const std::uint64_t now = monotonic_ns();
    constexpr std::uint64_t kMs = 1'000'000;
    regs.r10 = now < *timeout_end_ns_ ? (*timeout_end_ns_ - now + kMs - 1) / kMs : 0;
  }
  return regs;
}

// Reads first the call, which is known only for a thread that is off its processor, then its number
// of context switches.
absl::StatusOr<std::vector<WaitingProgram::Thread>> WaitingProgram::check_threads(
    int pid, std::optional<int> but) {
  const ProcFs proc;
  ASSIGN_OR_RETURN(const std::vector<int> tids, proc.tasks(pid));
  std::vector<Thread> threads;
  for (const int tid : tids) {
    if (tid == but) continue;
    const auto call = proc.sleeping_call(pid, tid);
    const auto status = proc.thread_status(pid, tid);
    if (!call.ok() || !status.ok()) return not_now("one of its threads is ending");
    if (!*call || status->state != 'S') return not_now("one of its threads is running");
    threads.push_back({.tid = tid, .switches = status->switches, .call = **call});
  }
  return threads;
}

absl::StatusOr<WaitingProgram> WaitingProgram::inspect(const Target& target,
                                                       const RuntimeLocks& locks,
                                                       const std::set<int>& unusable) {
  WaitingProgram program(target, locks);
  ASSIGN_OR_RETURN(program.threads_, check_threads(target.pid, std::nullopt));
  RETURN_IF_ERROR(program.choose(unusable));
  ASSIGN_OR_RETURN(program.states_, locks.free_states(*target.memory, program.chosen_.call));
  return program;
}

// Prefers the main thread.
absl::Status WaitingProgram::choose(const std::set<int>& unusable) {
  absl::Status why = not_now("no thread of it can be used");
  std::ranges::stable_partition(threads_,
                                [&](const Thread& thread) { return thread.tid == target_->pid; });
  for (const Thread& thread : threads_) {
    const bool is_main = thread.tid == target_->pid;
    if (unusable.contains(thread.tid) || (!is_main && may_be_tick(thread.call.number))) continue;
    const absl::Status usable = check_call(thread);
    if (usable.ok()) {
      chosen_ = thread;
      return measure_timeout();
    }
    if (is_main) why = usable;
  }
  return why;
}

absl::Status WaitingProgram::check_call(const Thread& thread) const {
  const long number = thread.call.number;
  const WaitingCall* const known = waiting_call(number);
  if (known == nullptr) {
    return not_now(
        absl::StrCat("it waits in ", name_of(number), ", which the kernel does not restart"));
  }
  if (number == SYS_futex) {
    const std::uint64_t operation = thread.call.arguments[1] & FUTEX_CMD_MASK;
    if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) {
      return not_now("it waits for a lock that the kernel does not restart");
    }
  }
  return known->has_descriptor ? check_descriptor(thread) : absl::OkStatus();
}

// A socket with a timeout fails with EINTR. Files other than sockets, pipes and terminals may
// already have done part of their work.
absl::Status WaitingProgram::check_descriptor(const Thread& thread) const {
  const std::string name = name_of(thread.call.number);
  const auto taken =
      take_descriptor(thread.tid, target_->pidfd.get(), static_cast<int>(thread.call.arguments[0]));
  struct stat file {};
  if (!taken.ok() || ::fstat(taken->get(), &file) != 0) {
    return not_now(absl::StrCat("it waits in ", name, " on a file that memprofd cannot examine"));
  }
  if (S_ISSOCK(file.st_mode)) {
    timeval time{};
    socklen_t size = sizeof time;
    const bool is_read = ::getsockopt(taken->get(), SOL_SOCKET, SO_RCVTIMEO, &time, &size) == 0;
    if (is_read && time.tv_sec == 0 && time.tv_usec == 0) return absl::OkStatus();
    return not_now(absl::StrCat(
        "it waits in ", name,
        " of a socket with a timeout (SO_RCVTIMEO), which would end too soon or too late"));
  }
  const bool is_terminal = S_ISCHR(file.st_mode) && ::isatty(taken->get()) == 1;
  if (S_ISFIFO(file.st_mode) || is_terminal) return absl::OkStatus();
  return not_now(
      absl::StrCat("it waits in ", name, " on a file other than a socket, pipe or terminal"));
}

// The time at which epoll_wait times out. The scheduler reports when a thread last ran, by the
// clock of its processor, which this thread reads on that processor.
absl::Status WaitingProgram::measure_timeout() {
  const int timeout = static_cast<int>(chosen_.call.arguments[3]);
  if (!is_epoll(chosen_.call.number) || timeout <= 0) return absl::OkStatus();
  const ProcFs proc;
  const absl::Status unknown =
      not_now("it waits in epoll_wait with a timeout, and this kernel does not report since when");
  const auto processor = proc.last_processor(target_->pid, chosen_.tid);
  cpu_set_t before, one;
  if (!processor.ok() || *processor >= CPU_SETSIZE ||
      sched_getaffinity(0, sizeof before, &before) != 0) {
    return unknown;
  }
  CPU_ZERO(&one);
  CPU_SET(*processor, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return unknown;
  const absl::Cleanup undo = [&before] { (void)sched_setaffinity(0, sizeof before, &before); };
  // The scheduler's data about this thread dates from the last time it was put on its processor.
  std::this_thread::sleep_for(std::chrono::microseconds(1));
  const std::uint64_t now_ns = monotonic_ns();
  const auto now = proc.last_run_ms(::getpid(), ::gettid());
  const auto slept = proc.last_run_ms(target_->pid, chosen_.tid);
  if (!now.ok() || !slept.ok() || *now < *slept) return unknown;
  const double left_ms = std::max(timeout - (*now - *slept), 0.0);
  timeout_end_ns_ = now_ns + static_cast<std::uint64_t>(left_ms * 1e6);
  return absl::OkStatus();
}

absl::StatusOr<InterruptedCall> WaitingProgram::interrupted(const user_regs_struct& regs,
                                                            std::uint64_t instruction) const {
  const auto result = static_cast<long>(regs.rax);
  const bool restarts = result == kRestartSys || result == kRestartNoIntr ||
                        result == kRestartNoHand || result == kRestartBlock ||
                        (result == -EINTR && is_epoll(chosen_.call.number));
  if (!restarts || static_cast<long>(regs.orig_rax) != chosen_.call.number ||
      regs.rip != chosen_.call.program_counter || regs.rsp != chosen_.call.stack_pointer ||
      (instruction & 0xffff) != kSyscallBytes) {
    return not_now("it has just woken up");
  }
  // The thread may wait there again, with a new timeout. The stop itself counts as one switch.
  if (timeout_end_ns_) {
    const auto now = ProcFs().thread_status(target_->pid, chosen_.tid);
    if (!now.ok() || now->switches > chosen_.switches + 1) return not_now("it has just woken up");
  }
  return InterruptedCall(regs, timeout_end_ns_);
}

absl::Status WaitingProgram::check_still() const {
  ASSIGN_OR_RETURN(const auto states, locks_->free_states(*target_->memory, chosen_.call));
  if (states != states_) return not_now("one of its domains starts or ends");
  ASSIGN_OR_RETURN(const std::vector<Thread> now, check_threads(target_->pid, chosen_.tid));
  const auto same = [](const Thread& a, const Thread& b) { return a == b; };
  std::vector<Thread> before = threads_;
  std::erase_if(before, [this](const Thread& thread) { return thread.tid == chosen_.tid; });
  std::ranges::sort(before, {}, &Thread::tid);
  if (!std::ranges::equal(before, now, same)) return not_now("a thread of it has run meanwhile");
  return absl::OkStatus();
}

void resume_program(const user_regs_struct& regs, PtraceSession& session) {
  (void)session.set_registers(InterruptedCall(regs, std::nullopt).resumed());
  (void)session.resume(0);
}

absl::StatusOr<StoppedCall> stop_in_call(const WaitingProgram& program, PtraceSession& session) {
  RETURN_IF_ERROR(session.seize(program.tid()));
  RETURN_IF_ERROR(session.interrupt(false, kStopPatience));
  ASSIGN_OR_RETURN(ThreadState state, session.state());
  const auto code = session.peek(state.regs.rip - 2);
  auto waits = code.ok() ? program.interrupted(state.regs, *code)
                         : absl::StatusOr<InterruptedCall>(code.status());
  absl::Status still = waits.ok() ? program.check_still() : waits.status();
  if (still.ok()) return StoppedCall{std::move(state), *waits};
  resume_program(state.regs, session);
  return still;
}

}  // namespace memprofd
