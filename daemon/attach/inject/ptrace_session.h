// SPDX-License-Identifier: Apache-2.0
// One thread of a process under PTRACE_SEIZE, for some milliseconds.
//
// Seizing does not stop the thread. The session belongs to the thread that created it: when that
// thread ends, for whatever reason, the kernel releases the seized thread, running or stopped. So a
// session lives on its own thread and needs no clean-up that could fail (see Injector).
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

// A signal that is about to be delivered to the stopped thread.
struct SignalStop {
  int signal = 0;
  int code = 0;  // si_code: the sender
};

class PtraceSession {
 public:
  using Clock = std::chrono::steady_clock;

  // given_up: set by another thread to end the extra patience for a program that its user has
  // stopped.
  explicit PtraceSession(const std::atomic<bool>* given_up = nullptr) : given_up_(given_up) {}
  PtraceSession(const PtraceSession&) = delete;
  PtraceSession& operator=(const PtraceSession&) = delete;

  // kNotFound: there is no such thread. kAlreadyExists: another process traces it.
  absl::Status seize(pid_t tid);
  // True if the thread has ended or called exec.
  bool gone() const { return tid_ == 0; }
  bool exec_seen() const { return exec_seen_; }

  // Waits for a signal that `wanted` accepts, and leaves the thread stopped before its delivery.
  // Other signals are passed on. Returns nothing if gone() or time is up. Time in which the user
  // has stopped the program (SIGSTOP) does not count, up to kStoppedPatience, unless the session is
  // given up.
  std::optional<SignalStop> wait_signal(const std::function<bool(const SignalStop&)>& wanted,
                                        std::chrono::milliseconds patience);
  static constexpr std::chrono::seconds kStoppedPatience{30};

  // The following functions need a stopped thread.
  absl::StatusOr<ThreadState> state() const;
  absl::Status set_registers(const user_regs_struct& regs) const;
  // The thread's seccomp filters, oldest first. kPermissionDenied: see why_filters_are_hidden().
  absl::StatusOr<std::vector<SeccompFilter>> filters() const;
  // Writes to the thread's stack, which grows if necessary.
  absl::Status write_stack(std::uint64_t address, std::span<const std::byte> bytes) const;
  // Reads a word of 8 bytes anywhere in the memory of the process.
  absl::StatusOr<std::uint64_t> peek(std::uint64_t address) const;
  absl::Status poke(std::uint64_t address, std::uint64_t word) const;
  // Sets the mask of blocked signals; ~0 blocks all.
  absl::Status set_signal_mask(std::uint64_t mask) const;
  absl::Status resume(int signal) const;  // resumes the thread with this signal; 0: none
  absl::Status release();                 // PTRACE_DETACH

  // From now on, a traced process that the thread's clone creates (CLONE_PTRACE) is taken for its
  // child, not for the thread under another pid. The child is stopped before its first instruction
  // and stays stopped.
  void expect_child() { expects_child_ = true; }
  // The child, if it has appeared in time. Can be called after the thread's release, too.
  std::optional<pid_t> wait_child(std::chrono::milliseconds patience);

  // Runs the thread into and out of this system call with this first argument. Returns the call's
  // result, with the thread stopped there. Signals that arrive meanwhile are passed on.
  // kDeadlineExceeded: not in time; the thread runs.
  absl::StatusOr<std::int64_t> run_to_system_call(std::uint64_t number, std::uint64_t argument,
                                                  std::chrono::milliseconds patience);

  // Runs the thread until it enters rt_sigreturn with this stack pointer, and leaves it stopped
  // there: a function has returned into the image of remote_frame.h. Signals and errors as above.
  absl::Status run_to_return(std::uint64_t stack_pointer, std::chrono::milliseconds patience);

  // The following functions are for a thread that waits in a system call and must resume it.
  //
  // Stops the thread on its way out of the call. is_stopped: it is at another stop now. Signals
  // that arrive first are passed on. kUnavailable: it did not stop in time.
  absl::Status interrupt(bool is_stopped, std::chrono::milliseconds patience);
  // Called at such a stop: resumes the thread with these registers. If a signal arrives before the
  // thread sleeps again, while it is still before that instruction, the thread returns to that
  // stop; otherwise the handler would run first and the call would begin after it. Calls is_asleep
  // until it returns true, no longer than patience. Afterwards the thread runs, under
  // watch_thread().
  void continue_waiting(const user_regs_struct& regs, std::uint64_t instruction,
                        const std::function<bool()>& is_asleep, std::chrono::milliseconds patience);
  // Passes on signals that arrive for a thread that runs seized. Call it repeatedly. process: the
  // pid under which the thread reappears after an exec.
  void watch_thread(pid_t process);

 private:
  class Patience;

  std::optional<int> next_stop(Patience& patience);
  bool pass_event(int status);
  bool is_child(pid_t tid, int status) const;
  void pass_stop(int status);
  // Runs to a stop at a system call for which is_there() is true. what: used in the message.
  // kNotFound: the thread has ended.
  absl::Status run_until(std::chrono::milliseconds time, const char* what,
                         const std::function<bool(const __ptrace_syscall_info&)>& is_there);
  absl::Status error(const char* what) const;

  const std::atomic<bool>* given_up_;
  pid_t tid_ = 0;
  bool exec_seen_ = false;
  bool expects_child_ = false;
  pid_t child_ = 0;  // 0: none yet
  bool stopped_by_user_ = false;
  bool at_system_calls_ = false;  // the thread stops at each system call
  struct Restart {
    user_regs_struct regs{};
    std::uint64_t instruction = 0;
  };
  std::optional<Restart> restart_;  // set until the thread sleeps
};

}  // namespace memprofd
