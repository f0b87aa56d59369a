// Runs the agent's code on a thread of the target, at the one place where the
// OCaml runtime itself runs callbacks.
//
// 1. A uprobe stands at the safe point (caml_do_pending_actions_exn): the thread
//    there holds the runtime lock, is outside malloc and the dynamic linker, and
//    callbacks are legal.
// 2. All threads are seized (not stopped), the probe is armed: the next thread
//    that passes gets SIGURG, which stops it for the tracer. SIGURG is ignored by
//    default: were the tracer gone, nothing would happen.
// 3. An almost idle program is hurried: young_limit := young_alloc_end makes the
//    next allocation take the slow path, as the runtime's own signal handlers do.
// 4. The stopped thread gets a stack image (remote_frame.h) that makes it call
//    dlopen(agent) and raise(SIGURG), the sign that dlopen is done; then
//    memprof_agent_poll; then it resumes by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel_side.h"
#include "daemon/attach/libc_functions.h"
#include "daemon/discover/target.h"

namespace memprofd {

struct Injection {
  const Target* target = nullptr;
  KernelSide* kernel = nullptr;
  // Empty when the agent is in the process already: then only poll is called.
  std::string agent_path;
  LibcFunctions libc;
  // Called once the agent is loaded, while the thread is stopped: answers with
  // the address of memprof_agent_poll in the process.
  std::function<absl::StatusOr<std::uint64_t>()> on_loaded;
};

struct InjectionResult {
  double paused_seconds = 0;  // first stop seen until release
};

// kUnavailable: no thread came to the safe point in time (idle, blocked, stopped);
// nothing was changed and the call may be repeated. kNotFound: the process ended.
absl::StatusOr<InjectionResult> inject(const Injection& injection,
                                       std::chrono::milliseconds patience);

}  // namespace memprofd
