// SPDX-License-Identifier: Apache-2.0
// A thread of the target that is stopped at the safe point and made to load the agent. Each call
// has a stack image of its own (remote_frame.h) below the previous one, and returns into that: the
// thread never depends on us. We only control the stops between the calls.
//
// Or a thread that waits in a system call (waiting_program.h). An image leads back to the begin of
// that call. While we control the thread we prevent that return, because after rt_sigreturn the
// kernel would forget how to resume the call. Instead an interrupt leads the kernel to the exit
// path of a call once more, from where it resumes the first call. No signal arrives in between: all
// are blocked, which the image undoes too.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/inject/libc_functions.h"
#include "daemon/attach/inject/ptrace_session.h"
#include "daemon/attach/inject/remote_frame.h"
#include "daemon/attach/inject/waiting_program.h"
#include "daemon/discover/target.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

class BorrowedThread {
 public:
  // Everything outlives it. The session's thread is `tid`, stopped in that state.
  BorrowedThread(const Target& target, const LibcFunctions& libc, PtraceSession& session, pid_t tid,
                 ThreadState state);
  // The thread waits, stopped in that call of that program.
  BorrowedThread(const Target& target, const LibcFunctions& libc, PtraceSession& session,
                 const WaitingProgram& program, const InterruptedCall& waits, ThreadState state);

  // Set for a thread that waits in a system call; null for one at the safe point.
  const WaitingProgram* program() const { return program_; }
  // The thread waits, but is not an OCaml thread.
  void mark_unusable() { is_unusable_ = true; }
  bool is_unusable() const { return is_unusable_; }

  // Has the dynamic linker load a file that the process sees under that name.
  absl::Status load(const std::string& path);

  // The same with a copy of these bytes in the process's memory, which holds `agents` agents.
  struct Copy {
    SharedFd file;
    std::string name;  // under which it was loaded
    int number = -1;   // of the process's descriptor, which is open until it makes close_call()
  };
  absl::StatusOr<Copy> load_copy(std::span<const std::byte> contents, std::size_t agents);

  // Has it call a function without arguments, which may make a child of the thread ours to trace
  // (PtraceSession::expect_child).
  absl::Status call_agent(std::uint64_t function);
  // A function of an array of words and their number, likewise.
  absl::Status call_agent(std::uint64_t function, std::span<const std::uint64_t> words);
  std::optional<pid_t> wait_child(std::chrono::milliseconds patience) {
    return session_.wait_child(patience);
  }

  // Lets the thread go, into a call that returns into the program, or into the program.
  absl::Status finish(std::optional<RemoteCall> call);
  // After that. A thread that waits stays seized until the session's thread ends, so that signals
  // have to be passed on: to be called again and again.
  void watch_thread();
  // Does the work, on another thread where that has to be.
  void watch_while(const std::function<void()>& work);
  // The call that closes the copy; nothing if the program has reused that descriptor meanwhile.
  std::optional<RemoteCall> close_call(const Copy& copy) const;

  // Raised by the thread after a call has returned.
  static constexpr int kSignal = SIGURG;

 private:
  absl::Status put_frame(RemoteCall function, std::optional<RemoteCall> second,
                         const std::string& text);
  absl::Status call(RemoteCall function, const std::string& text, std::string_view action,
                    std::chrono::milliseconds patience);
  // call: of the C library's syscall().
  absl::StatusOr<std::int64_t> call_system(RemoteCall call, const std::string& text);
  absl::Status agent_called(absl::Status called) const;
  absl::Status put_call_of_waiting(RemoteCall function, const std::string& text);
  absl::Status return_from_call(std::chrono::milliseconds patience);
  absl::Status continue_waiting();
  bool is_our_raise(const SignalStop& stop) const;
  absl::Status not_done(std::string_view action) const;
  void save_errno();
  void restore_errno() const;

  const Target& target_;
  const LibcFunctions& libc_;
  PtraceSession& session_;
  pid_t tid_;
  const WaitingProgram* program_ = nullptr;
  std::optional<InterruptedCall> waits_;
  bool is_unusable_ = false;
  ThreadState state_;  // at the last stop; for a waiting thread at the restart of its call
  RemoteFrame frame_;  // written last
  std::uint64_t errno_address_ = 0;
  std::uint32_t errno_ = 0;
};

}  // namespace memprofd
