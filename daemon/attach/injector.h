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
//    next allocation take the slow path, as the runtime's own signal handlers do; in
//    OCaml 5 that of each domain that a thread runs in (attach/hurry.h).
//    A program that allocates nothing stays as it is, and is caught when it does.
// 4. The stopped thread gets a stack image (remote_frame.h) that makes it call
//    dlopen(agent) and raise(SIGURG), the sign that dlopen is done; then
//    memprof_agent_poll; then it resumes by itself.
// 5. A process that does not see the agent's file calls memfd_create first and close
//    last, with an image and a raise for each; between the two the daemon fills the
//    memfd and puts the probe on it. Each image returns into the one before, in the
//    middle of its raise, so that at no time the process depends on us.
//
// An Injector waits in a thread of its own, blocked in waitpid: it costs nothing
// while the target is idle, and its end, however it comes, frees the target.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel_side.h"
#include "daemon/attach/libc_functions.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/target.h"

namespace memprofd {

struct Injection {
  const Target* target = nullptr;  // outlives the Injector
  KernelSide* kernel = nullptr;    // likewise; its safe point belongs to the Injector
  // Empty when the agent is in the process already: then only poll is called.
  std::string agent_path;
  // Set when the process does not see that file: gets a copy, and this is told the path
  // of the copy before it is mapped, on the injector's thread.
  std::function<absl::Status(const std::string& path)> on_copied;
  LibcFunctions libc;
  // Called once the agent is loaded, on the injector's thread, while the target's
  // thread is stopped: finds the agent and tells it what to do.
  std::function<absl::StatusOr<AgentLocation>()> on_loaded;
};

struct InjectionResult {
  AgentLocation agent;
  double paused_seconds = 0;  // first stop seen until release
};

class Injector {
 public:
  // Seizes and waits. The status says why that is impossible.
  static absl::StatusOr<std::unique_ptr<Injector>> start(Injection injection);
  ~Injector();  // gives up when it is still waiting
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  // Has the next thread at the safe point looked at when the last one had not enough
  // stack left.
  void look_again();
  // Whether the thread that came last had not enough stack left.
  bool lacks_stack() const { return lacks_stack_; }
  // Nothing while it waits. kNotFound: the process ended.
  std::optional<absl::StatusOr<InjectionResult>> result() const;

 private:
  explicit Injector(Injection injection) : injection_(std::move(injection)) {}

  Injection injection_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> lacks_stack_{false};
  absl::StatusOr<InjectionResult> result_ = absl::CancelledError("not finished");  // before done_
  std::thread thread_;
};

}  // namespace memprofd
