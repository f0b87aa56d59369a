// SPDX-License-Identifier: Apache-2.0
// Uses a program that waits: all of its threads sleep, and none runs OCaml code. It passes no safe
// point until something wakes it, but one of its threads can do the work of a thread at the safe
// point within its system call. Reads alone, while the program runs, decide which thread:
//
//     all threads sleep      /proc shows the call of a thread only while it is off its processor
//     the runtime is free    discover/runtime_locks.h
//     one waits in a call that the kernel can restart, with the time that is left
//
// A thread that runs meanwhile changes its number of context switches. So a copy is consistent if
// all other threads still sleep, without having been switched to, once it is made.
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
  // regs: at the stop. timeout_end_ns: when epoll_wait's time is over, by monotonic_ns().
  InterruptedCall(const user_regs_struct& regs, std::optional<std::uint64_t> timeout_end_ns)
      : regs_(regs), timeout_end_ns_(timeout_end_ns) {}

  // Registers that restart the call, whatever the kernel remembers of it.
  user_regs_struct restarted() const;
  // From which the kernel goes on with it, when they are set at a stop on the way out of a call.
  user_regs_struct resumed() const;
  // Address of its instruction.
  std::uint64_t instruction() const { return regs_.rip - 2; }

 private:
  user_regs_struct regs_;
  std::optional<std::uint64_t> timeout_end_ns_;
};

class WaitingProgram {
 public:
  // kUnavailable, a few words: why not now. unusable: threads that are not to be taken.
  static absl::StatusOr<WaitingProgram> inspect(const Target& target, const RuntimeLocks& locks,
                                                const std::set<int>& unusable);

  int tid() const { return chosen_.tid; }  // of the thread to use
  // The states of the domains, as the runtime lists them.
  std::span<const std::uint64_t> states() const { return states_; }

  // With that thread stopped by an interrupt: whether it is where it was. instruction: what stands
  // before its program counter. kUnavailable as above.
  absl::StatusOr<InterruptedCall> interrupted(const user_regs_struct& regs,
                                              std::uint64_t instruction) const;
  // kUnavailable, a few words: another thread has run since, or the runtime is not free any more.
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
// Seizes the thread that is to be used, stops it in its call and looks once more. kUnavailable, a
// few words: it was not to be; kNotFound: it has ended; it has gone on then. Other errors as of
// PtraceSession::seize().
absl::StatusOr<StoppedCall> stop_in_call(const WaitingProgram& program, PtraceSession& session);
// Lets a thread go on that was stopped there, with nothing done to it.
void resume_program(const user_regs_struct& regs, PtraceSession& session);

}  // namespace memprofd
