// SPDX-License-Identifier: Apache-2.0
// Uses a program that waits: all of its threads sleep, and none runs OCaml code. It passes no safe
// point until something wakes it, but one of its threads can do the work of a thread at the safe
// point within its system call. Which thread is decided by reads alone, while the program runs:
//
//     all threads sleep      /proc shows the call of a thread only while it is off its processor
//     the runtime is free    discover/runtime_locks.h
//     one waits in a call that the kernel can restart, with the remaining time
//
// A thread that runs meanwhile changes its number of context switches. So a copy is consistent if,
// once it is made, all other threads still sleep and have not been switched to.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/inject/ptrace_session.h"
#include "daemon/attach/inject/remote_frame.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/discover/target.h"

namespace memprofd {

// How to resume a thread that was stopped in its system call.
class InterruptedCall {
 public:
  // regs: registers at the stop. timeout_end_ns: end of epoll_wait's timeout, by monotonic_ns().
  InterruptedCall(const user_regs_struct& regs, std::optional<std::uint64_t> timeout_end_ns)
      : regs_(regs), timeout_end_ns_(timeout_end_ns) {}

  // Registers that restart the call, independent of the kernel's state for it.
  user_regs_struct restarted() const;
  // Registers with which the kernel resumes the call, if set at a stop on the exit path of a call.
  user_regs_struct resumed() const;
  // Address of the system call's instruction.
  std::uint64_t instruction() const { return regs_.rip - 2; }

 private:
  user_regs_struct regs_;
  std::optional<std::uint64_t> timeout_end_ns_;
};

class WaitingProgram {
 public:
  // kUnavailable: the reason why the program cannot be used now, in a few words. unusable: threads
  // that must not be chosen.
  static absl::StatusOr<WaitingProgram> inspect(const Target& target, const RuntimeLocks& locks,
                                                const std::set<int>& unusable);

  int tid() const { return chosen_.tid; }  // the thread to use
  // The states of the domains, as the runtime lists them.
  std::span<const std::uint64_t> states() const { return states_; }

  // Checks whether that thread, stopped by an interrupt, is still in its call. instruction: the
  // bytes before its program counter. kUnavailable as above.
  absl::StatusOr<InterruptedCall> interrupted(const user_regs_struct& regs,
                                              std::uint64_t instruction) const;
  // kUnavailable, in a few words: another thread has run since, or the runtime is no longer free.
  absl::Status check_still() const;

 private:
  struct Thread {
    int tid = 0;
    std::uint64_t switches = 0;
    SleepingCall call;
    bool operator==(const Thread&) const = default;
  };
  WaitingProgram(const Target& target, const RuntimeLocks& locks)
      : target_(&target), locks_(&locks) {}
  static absl::StatusOr<std::vector<Thread>> check_threads(int pid, std::optional<int> but);
  absl::Status choose(const std::set<int>& unusable);
  absl::Status check_call(const Thread& thread) const;
  absl::Status check_descriptor(const Thread& thread) const;
  absl::Status measure_timeout();

  const Target* target_;       // not owned
  const RuntimeLocks* locks_;  // not owned
  std::vector<Thread> threads_;
  Thread chosen_;
  std::vector<std::uint64_t> states_;
  std::optional<std::uint64_t> timeout_end_ns_;
};

struct StoppedCall {
  ThreadState state;
  InterruptedCall waits;
};
// Seizes the thread to use, stops it in its call and checks again. kUnavailable, in a few words:
// the thread cannot be used and continues; kNotFound: it has ended. Other errors as for
// PtraceSession::seize().
absl::StatusOr<StoppedCall> stop_in_call(const WaitingProgram& program, PtraceSession& session);
// Resumes a thread that was stopped there, unchanged.
void resume_program(const user_regs_struct& regs, PtraceSession& session);

}  // namespace memprofd
