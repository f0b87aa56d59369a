// SPDX-License-Identifier: Apache-2.0
// One thread of a process under PTRACE_SEIZE, for some milliseconds.
//
// Seizing does not stop the thread. The session belongs to the thread that created it: when that
// thread ends, for whatever reason, the kernel releases the seized thread, running or stopped. So a
// session lives in a thread of its own and needs no clean-up that could fail (see Injector).
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/inject/remote_frame.h"
#include "daemon/attach/inject/seccomp_filter.h"

namespace memprofd {

// A signal that the thread stands before; it is not delivered yet.
struct SignalStop {
  int signal = 0;
  int code = 0;  // si_code: the sender
};

class PtraceSession {
 public:
  using Clock = std::chrono::steady_clock;

  // given_up: set by another thread when the end is not to be waited for longer than the program
  // may run.
  explicit PtraceSession(const std::atomic<bool>* given_up = nullptr) : given_up_(given_up) {}
  PtraceSession(const PtraceSession&) = delete;
  PtraceSession& operator=(const PtraceSession&) = delete;

  // kNotFound: there is no such thread. kAlreadyExists: another process traces it.
  absl::Status seize(pid_t tid);
  // It has ended, or runs another program.
  bool gone() const { return tid_ == 0; }
  bool exec_seen() const { return exec_seen_; }

  // Waits for a signal that `wanted` takes, and leaves the thread stopped before it. Others
  // are passed on. Nothing: gone(), or the time is over; time in which the program was stopped
  // by its user (SIGSTOP) does not count, up to kStoppedPatience, until it is given up.
  std::optional<SignalStop> wait_signal(const std::function<bool(const SignalStop&)>& wanted,
                                        std::chrono::milliseconds patience);
  static constexpr std::chrono::seconds kStoppedPatience{30};

  // All of the following want the thread stopped.
  absl::StatusOr<ThreadState> state() const;
  absl::Status set_registers(const user_regs_struct& regs) const;
  // The thread's filters of seccomp, the first one first. kPermissionDenied:
  // why_filters_are_hidden().
  absl::StatusOr<std::vector<SeccompFilter>> filters() const;
  // Onto its stack, which grows where it has to.
  absl::Status write_stack(std::uint64_t address, std::span<const std::byte> bytes) const;
  // A word of 8 bytes anywhere in its memory.
  absl::StatusOr<std::uint64_t> peek(std::uint64_t address) const;
  absl::Status poke(std::uint64_t address, std::uint64_t word) const;
  // The signals that it blocks; all are blocked with ~0.
  absl::Status set_signal_mask(std::uint64_t mask) const;
  absl::Status resume(int signal) const;  // lets it run, with a signal or 0
  absl::Status release();                 // PTRACE_DETACH

  // Whatever the thread's clone makes ours to trace (CLONE_PTRACE) from now on is its child, and
  // not the thread itself under another number. Such a child is stopped before its first
  // instruction, and stays so.
  void expect_child() { expects_child_ = true; }
  // The child, when it has come in time; also after the thread's release.
  std::optional<pid_t> wait_child(std::chrono::milliseconds patience);

  // Lets it run into that system call with that first argument, and out of it: what that
  // returned, with the thread stopped there. Signals that come meanwhile are passed on.
  // kDeadlineExceeded, with the thread running, when it does not make it in time.
  absl::StatusOr<std::int64_t> run_to_system_call(std::uint64_t number, std::uint64_t argument,
                                                  std::chrono::milliseconds patience);

  // Lets it run to its entry into rt_sigreturn with that stack pointer, and leaves it stopped
  // there: a function has returned into the image of remote_frame.h. As above.
  absl::Status run_to_return(std::uint64_t stack_pointer, std::chrono::milliseconds patience);

  // A thread that waits in a system call, and is to go on with it.
  //
  // Stops it on its way out of the call; is_stopped: from the stop at which it is now. Signals that
  // come first are passed on. kUnavailable: it does not stop in time.
  absl::Status interrupt(bool is_stopped, std::chrono::milliseconds patience);
  // At such a stop: resumes the thread with these registers. If a signal arrives before it sleeps
  // again, while it is still before that instruction, it comes back to that stop: otherwise the
  // handler would run, and the call would begin after it. is_asleep is called until it returns
  // true, no longer than patience. Then the thread runs, under watch_thread().
  void continue_waiting(const user_regs_struct& regs, std::uint64_t instruction,
                        const std::function<bool()>& is_asleep, std::chrono::milliseconds patience);
  // Passes on signals that arrive for a thread that runs seized. Call it repeatedly; process: the
  // pid under which the thread comes back when it calls exec.
  void watch_thread(pid_t process);

 private:
  class Patience;

  std::optional<int> next_stop(Patience& patience);
  bool pass_event(int status);
  bool is_child(pid_t tid, int status) const;
  void pass_stop(int status);
  // Runs to a stop at a system call for which is_there() is true; what: for the message. kNotFound:
  // the thread has ended.
  absl::Status run_until(std::chrono::milliseconds time, const char* what,
                         const std::function<bool(const __ptrace_syscall_info&)>& is_there);
  absl::Status error(const char* what) const;

  const std::atomic<bool>* given_up_;
  pid_t tid_ = 0;
  bool exec_seen_ = false;
  bool expects_child_ = false;
  pid_t child_ = 0;  // 0: has not come
  bool stopped_by_user_ = false;
  bool at_system_calls_ = false;  // stops at each
  struct Restart {
    user_regs_struct regs{};
    std::uint64_t instruction = 0;
  };
  std::optional<Restart> restart_;  // until it sleeps
};

}  // namespace memprofd
