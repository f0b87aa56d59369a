// SPDX-License-Identifier: Apache-2.0
// Runs the agent's code on a thread of the target, at the one place where the OCaml runtime itself
// runs callbacks.
//
// 1. A uprobe is placed at the safe point (caml_do_pending_actions_exn). A thread there holds the
//    runtime lock, is outside of malloc and the dynamic linker, and may run callbacks. Until a
//    thread passes, the program is not changed otherwise: it can wait for hours, be traced and get
//    signals, whatever happens to memprofd.
// 2. A thread that passes reports itself and waits up to half a millisecond
//    (attach/kernel/safe_point.h). If it can take the signal, it alone is seized, which does not
//    stop it, and then gets SIGURG, which stops it for the tracer. SIGURG is ignored by default, so
//    it has no effect without a tracer. A seizure that comes too late ends after some milliseconds,
//    longer each time, and the watch restarts.
// 3. An almost idle program is woken: its next allocation takes the slow path
//    (attach/inject/trip_young_limit.h). A program that allocates nothing is not changed, and is
//    caught when it allocates. While all its threads sleep and the runtime is free, a thread that
//    waits in a system call can be used instead, and then continues with that call
//    (attach/inject/waiting_program.h). Without the privileges for a probe there is that way, and
//    one for a program that an agent samples already: its thread waits in the agent's callback, is
//    seized and interrupted there (SamplePoint).
// 4. The stopped thread is made to load the agent and to call memprof_agent_poll
//    (attach/inject/borrowed_thread.h). Then it resumes by itself.
//
// An Injector waits on its own thread. A second thread handles each reported thread; when that
// second thread ends, for whatever reason, the kernel releases everything that it seized.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/inject/borrowed_thread.h"
#include "daemon/attach/inject/heap_points.h"
#include "daemon/attach/inject/libc_functions.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/attach/kernel/safe_point.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/discover/target.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// A place at which to catch a thread instead of the target's safe point.
struct CatchSite {
  ProbeSite site;
  std::uint64_t address = 0;  // in the process
};

struct Injection {
  const Target* target = nullptr;   // outlives the Injector
  ProbeRemoval* removal = nullptr;  // likewise; removes the probe at the end
  // Empty if the process already holds the agent: then only poll is called.
  std::string agent_path;
  // Contents of that file, if the process cannot see it and gets a copy.
  std::vector<std::byte> agent_copy;
  std::size_t agents = 0;  // number of agents of other builds that the process holds
  LibcFunctions libc;
  std::optional<CatchSite> place;
  std::span<const FilteredCall> calls = kAgentCalls;  // system calls that the thread will make
  // The caller knows, without reading the program's seccomp filters, that they allow these calls.
  bool filters_allow = false;
  // Allows the use of a thread that waits in a system call while none passes the safe point. Such a
  // thread only loads the agent; poll needs the runtime lock and is not called.
  bool while_waiting = false;
  // Places no probe, so no privileges are needed: uses only such a thread, or one at sample_point.
  bool without_probe = false;
  std::optional<SamplePoint> sample_point;
  // If set, it runs instead of loading the agent, on the thread that traces the borrowed one.
  // stopped_at_ns: when that one was stopped (CLOCK_MONOTONIC). It always releases the borrowed
  // thread, and may continue to run afterwards. kUnavailable: try again.
  std::function<absl::Status(BorrowedThread&, std::uint64_t stopped_at_ns)> callback;
  // Called once the agent is loaded under this name, on a thread of the injector, while the
  // target's thread is stopped: finds the agent and gives it its orders. Must not make calls
  // without a deadline, because the program may have placed a page there that never arrives.
  std::function<absl::StatusOr<AgentLocation>(const std::string& name)> on_loaded;
};

struct InjectionResult {
  AgentLocation agent;
  SharedFd copy;  // the mapped copy; null: none was requested
  // Time from the thread's report, or from its stop if that came later, until its release.
  double paused_seconds = 0;
  bool polled = true;  // the agent was asked to start
};

// Reason why the last reported thread could not be used.
enum class Obstacle { kNone, kStack, kSignalBlocked, kTraced, kNoThread };

// What the injection waits for, and the remedy, in one line; empty for kNone.
std::string_view obstacle_text(Obstacle obstacle);

class Injector {
 public:
  // Starts to wait for a thread. The status has the reason if that is impossible.
  static absl::StatusOr<std::unique_ptr<Injector>> start(Injection injection);
  ~Injector();  // gives up, and waits for the end
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  Obstacle obstacle() const { return obstacle_; }
  // Why no waiting thread could be used, in a few words; empty: none was tried.
  std::string why_not_waiting() const;
  // True if the program's seccomp filters prevented the injection: the result has the reason.
  bool gave_up() const { return gave_up_; }
  // Ends the injection soon, but not while it works with a borrowed thread.
  void give_up();
  void wait();  // gives up, and waits until it has ended
  // Not set while the injection waits. kNotFound: the process ended or called exec. kCancelled: the
  // injection was given up.
  std::optional<absl::StatusOr<InjectionResult>> result() const;

  static constexpr std::uint64_t kStackRoomBytes = 64u << 10;

 private:
  class InjectionAttempt;
  explicit Injector(Injection injection) : injection_(std::move(injection)) {}
  void run();
  void find_stack();
  void note_waiting(std::string why);

  Injection injection_;
  std::unique_ptr<SafePoint> safe_point_;
  UniqueFd cancel_;          // an eventfd
  AddressRange main_stack_;  // set by find_stack(), while no thread is stopped
  std::optional<absl::StatusOr<RuntimeLocks>> locks_;  // set once they are needed
  std::set<int> unusable_;                             // waiting threads whose copies had no roots
  mutable Mutex mutex_;
  std::string why_not_waiting_ ABSL_GUARDED_BY(mutex_);
  int misses_ = 0;   // consecutive reports that were answered too late
  int refused_ = 0;  // consecutive threads at the sample point that could not be used
  std::atomic<bool> given_up_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> gave_up_{false};
  std::atomic<Obstacle> obstacle_{Obstacle::kNone};
  absl::StatusOr<InjectionResult> result_ =
      absl::CancelledError("not finished");  // written before done_
  std::thread thread_;
};

}  // namespace memprofd
