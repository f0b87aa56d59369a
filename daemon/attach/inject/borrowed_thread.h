// SPDX-License-Identifier: Apache-2.0
// A thread of the target that is stopped at the safe point and made to load the agent. Each call
// has its own stack image (remote_frame.h) below the previous one and returns into that image, so
// the thread never depends on us. We only control the stops between the calls.
//
// The thread may instead wait in a system call (waiting_program.h). An image then leads back to the
// start of that call. While we control the thread we prevent this return, because after
// rt_sigreturn the kernel would forget how to resume the call. Instead an interrupt leads the
// kernel once more to the exit path of a call, from where it resumes the first call. All signals
// are blocked meanwhile; the image restores the mask.
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
  // All arguments outlive this object. The session's thread is `tid`, stopped in that state.
  BorrowedThread(const Target& target, const LibcFunctions& libc, PtraceSession& session, pid_t tid,
                 ThreadState state);
  // For a thread that waits: it is stopped in the call `waits` of that program.
  BorrowedThread(const Target& target, const LibcFunctions& libc, PtraceSession& session,
                 const WaitingProgram& program, const InterruptedCall& waits, ThreadState state);

  // Set for a thread that waits in a system call; null for one at the safe point.
  const WaitingProgram* program() const { return program_; }
  // Marks a waiting thread that turned out not to be an OCaml thread.
  void mark_unusable() { is_unusable_ = true; }
  bool is_unusable() const { return is_unusable_; }

  // Makes the dynamic linker load a file that the process sees under this path.
  absl::Status load(const std::string& path);

  // Loads a copy of `contents` that lies in the process's memory. agents: number of agents that the
  // process already holds.
  struct Copy {
    SharedFd file;
    std::string name;  // name under which it was loaded
    int number = -1;   // the process's descriptor, open until close_call() runs
  };
  absl::StatusOr<Copy> load_copy(std::span<const std::byte> contents, std::size_t agents);

  // Makes the thread call a function without arguments. The call may create a child that we trace
  // (PtraceSession::expect_child).
  absl::Status call_agent(std::uint64_t function);
  // The same for a function that takes an array of words and its length.
  absl::Status call_agent(std::uint64_t function, std::span<const std::uint64_t> words);
  std::optional<pid_t> wait_child(std::chrono::milliseconds patience) {
    return session_.wait_child(patience);
  }

  // Releases the thread: into this call, which returns into the program, or directly into the
  // program.
  absl::Status finish(std::optional<RemoteCall> call);
  // Call it repeatedly after finish(). A waiting thread stays seized until the session's thread
  // ends, so its signals have to be passed on.
  void watch_thread();
  // Runs work(). For a waiting thread, work() runs on another thread while this one watches.
  void watch_while(const std::function<void()>& work);
  // The call that closes the copy; nothing if the program has reused that descriptor meanwhile.
  std::optional<RemoteCall> close_call(const Copy& copy) const;

  // The thread raises this signal after a call has returned.
  static constexpr int kSignal = SIGURG;

 private:
  absl::Status put_frame(RemoteCall function, std::optional<RemoteCall> second,
                         const std::string& text);
  absl::Status call(RemoteCall function, const std::string& text, std::string_view action,
                    std::chrono::milliseconds patience);
  // call: a call of the C library's syscall().
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
  ThreadState state_;  // at the last stop; for a waiting thread, when its call restarts
  RemoteFrame frame_;  // the image written last
  std::uint64_t errno_address_ = 0;
  std::uint32_t errno_ = 0;
};

}  // namespace memprofd
