// The threads of one process under PTRACE_SEIZE, for a short while.
//
// Seizing stops nobody. The session belongs to the thread that created it: the
// kernel lets all seized threads go, running or stopped, when that thread ends,
// however it ends. So a session lives in a thread of its own and needs no
// clean-up that could fail (see Injector).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/remote_frame.h"

namespace memprofd {

// A thread standing in a signal-delivery stop; the signal is not delivered yet.
struct SignalStop {
  pid_t tid = 0;
  int signal = 0;
};

class PtraceSession {
 public:
  explicit PtraceSession(pid_t pid) : pid_(pid) {}
  PtraceSession(const PtraceSession&) = delete;
  PtraceSession& operator=(const PtraceSession&) = delete;

  // Seizes every thread, those that appear meanwhile included.
  absl::Status seize();

  // Handles what has happened so far without waiting: new threads are let go on,
  // signals are passed on, except `wanted`, whose stop is returned.
  std::optional<SignalStop> poll(int wanted);
  // The same, but waits for something to happen, or for a signal to the caller.
  std::optional<SignalStop> wait(int wanted);
  // No thread is left: the process has ended.
  bool gone() const { return threads_.empty(); }

  absl::StatusOr<ThreadState> state(pid_t tid) const;
  absl::Status set_registers(pid_t tid, const user_regs_struct& regs) const;
  // Lets a stopped thread run, with a signal or 0.
  absl::Status resume(pid_t tid, int signal) const;
  absl::Status release(pid_t tid);  // PTRACE_DETACH of a stopped thread

 private:
  absl::Status seize_thread(pid_t tid, bool& is_new);
  std::optional<SignalStop> drain(int wanted, int first_options);
  std::optional<SignalStop> handle_stop(pid_t tid, int status, int wanted);

  pid_t pid_;
  std::set<pid_t> threads_;
};

}  // namespace memprofd
