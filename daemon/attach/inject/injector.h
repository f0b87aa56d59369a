// SPDX-License-Identifier: Apache-2.0
// Runs the agent's code on a thread of the target, at the one place where the OCaml runtime itself
// runs callbacks.
//
// 1. A uprobe is placed at the safe point (caml_do_pending_actions_exn): a thread there holds the
//    runtime lock, is outside malloc and the dynamic linker, and callbacks are legal. Until a
//    thread passes, nothing else is done to the program: it can wait for hours, be traced and get
//    signals, whatever happens to memprofd.
// 2. A thread that passes reports itself and waits up to half a millisecond
//    (attach/kernel/safe_point.h). It alone is seized, which does not stop it, if it can take the
//    signal. Then it gets SIGURG, which stops it for the tracer. SIGURG is ignored by default, so
//    nothing would happen without a tracer. A seizure that comes too late ends after some
//    milliseconds, longer each time, and the watch begins again.
// 3. An almost idle program is woken: its next allocation takes the slow path
//    (attach/inject/trip_young_limit.h). A program that allocates nothing is not changed, and is
//    caught when it allocates. While all its threads sleep and the runtime is free, a thread that
//    waits in a system call can be used instead, and then continues with that call
//    (attach/inject/waiting_program.h).
// 4. The stopped thread is made to load the agent and to call memprof_agent_poll
//    (attach/inject/borrowed_thread.h). Then it resumes by itself.
//
// An Injector waits in a thread of its own. Another thread answers each thread that has reported
// itself; when that thread ends, for whatever reason, everything that it seized is released.
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
#include "daemon/attach/inject/libc_functions.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/attach/kernel/safe_point.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/discover/target.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// A place at which to catch a thread, instead of the target's safe point.
struct CatchSite {
  ProbeSite site;
  std::uint64_t address = 0;  // in the process
};

struct Injection {
  const Target* target = nullptr;   // outlives the Injector
  ProbeRemoval* removal = nullptr;  // likewise; takes the probe out in the end
  // Empty when the agent is in the process already: then only poll is called.
  std::string agent_path;
  // Contents of that file, if the process cannot see it and gets a copy.
  std::vector<std::byte> agent_copy;
  std::size_t agents = 0;  // that the process holds already, of other builds
  LibcFunctions libc;
  std::optional<CatchSite> place;
  std::span<const FilteredCall> calls = kAgentCalls;  // which the thread is to make
  // Whether a thread that waits in a system call may be used while none passes the safe point. Such
  // a thread only loads the agent; poll needs the runtime lock and is not called.
  bool while_waiting = false;
  // Only such a thread is used. No probe is placed, so no privileges are needed.
  bool only_waiting = false;
  // If set, it replaces all that: it runs on the thread that traces the borrowed one, with the time
  // since which that one is stopped (CLOCK_MONOTONIC). It releases the thread in any case, and may
  // run longer than that. kUnavailable, on a waiting thread: try again.
  std::function<absl::Status(BorrowedThread&, std::uint64_t stopped_at_ns)> callback;
  // Called once the agent is loaded under that name, on a thread of the injector, while the
  // target's thread is stopped: finds the agent and gives it its orders. Must not use calls without
  // a deadline, because the program may have placed a page there that never arrives.
  std::function<absl::StatusOr<AgentLocation>(const std::string& name)> on_loaded;
};

struct InjectionResult {
  AgentLocation agent;
  SharedFd copy;  // that is mapped; null: not requested
  // from the thread's report, or the stop if that came later, until release
  double paused_seconds = 0;
  bool polled = true;  // the agent was asked to begin
};

// Why the thread that came last could not be used.
enum class Obstacle { kNone, kStack, kSignalBlocked, kTraced, kNoThread };

// What the injection waits for and how to help, in one line; empty for kNone.
std::string_view obstacle_text(Obstacle obstacle);

class Injector {
 public:
  // Starts to watch and wait. The status has the reason if that is impossible.
  static absl::StatusOr<std::unique_ptr<Injector>> start(Injection injection);
  ~Injector();  // gives up, and waits until it has
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  Obstacle obstacle() const { return obstacle_; }
  // Why no waiting thread could be used when none came, a few words; empty: that was not tried.
  std::string why_not_waiting() const;
  // True if nothing was done, because of the program's seccomp filters: the result has the reason.
  bool gave_up() const { return gave_up_; }
  // Makes it end soon, but not while it works with a borrowed thread.
  void give_up();
  void wait();  // gives up, and waits until it has ended
  // Nothing while it waits. kNotFound: the process ended, or replaced itself. kCancelled: it was
  // given up.
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
  AddressRange main_stack_;  // by find_stack(), while no thread is stopped
  std::optional<absl::StatusOr<RuntimeLocks>> locks_;  // when they were needed
  std::set<int> unusable_;  // threads that wait, but have given copies without roots
  mutable Mutex mutex_;
  std::string why_not_waiting_ ABSL_GUARDED_BY(mutex_);
  int misses_ = 0;  // consecutive reports that were answered too late
  std::atomic<bool> given_up_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> gave_up_{false};
  std::atomic<Obstacle> obstacle_{Obstacle::kNone};
  absl::StatusOr<InjectionResult> result_ = absl::CancelledError("not finished");  // before done_
  std::thread thread_;
};

}  // namespace memprofd
