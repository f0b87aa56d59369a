// SPDX-License-Identifier: Apache-2.0
// Makes a process that runs already share its agent's memory, with no more than the right to write
// to its memory:
//
//   kEnding    an agent there still samples for a reader that has died: it is told to stop
//   kLoading   the program loads the agent: on a thread that waits in a system call, which is
//              stopped for about a millisecond (attach/inject/injector.h), or else at the end of a
//              minor collection (attach/inject/hook_loader.h)
//   kOrdered   the agent is to share its memory (struct memprof_share_order)
//   kShared    advance() has returned that memory
//
// Each other step waits for a minor collection of the program, which is asked for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/agent_plan.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/attach/inject/hook_loader.h"
#include "daemon/attach/inject/injector.h"
#include "daemon/attach/inject/libc_functions.h"
#include "daemon/attach/inject/minor_collections.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/attach/target_lock.h"
#include "daemon/discover/target.h"
#include "daemon/run/shared_agent.h"

namespace memprofd {

class RunTarget;

// Owned by one thread.
class RunningProcess {
 public:
  // Does nothing to a process that it refuses. Errors have one line with cause and remedy:
  // kNotFound, kPermissionDenied, kFailedPrecondition, kAlreadyExists: somebody profiles it.
  static absl::StatusOr<std::unique_ptr<RunningProcess>> inspect(int pid, AgentFile agent);
  // Ends the order's lease: without a session the agent takes its data back at once.
  ~RunningProcess();
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  // Goes as far as possible now. Nothing: the program has not come that far; kNotFound: it has
  // ended, or runs another program.
  absl::StatusOr<std::optional<SharedAgent>> advance();
  // Asks for a minor collection now and then, until sampling has begun or ended.
  void ask_for_collection();
  // The reason why sampling has not begun yet, and a remedy, as in "pid 42 is stopped; ...".
  std::string why_waiting() const;
  // Waits; true if the process has ended within that time.
  bool wait(std::chrono::milliseconds time) const;
  // True if it runs another program since (exec).
  bool is_replaced() const { return absl::IsNotFound(target_.memory->check()); }
  const Target& target() const { return target_; }
  // Null until the program has loaded the agent.
  const AgentLocation* agent() const { return agent_.control_address != 0 ? &agent_ : nullptr; }

 private:
  enum class Step { kEnding, kLoading, kOrdered, kShared };

  RunningProcess(Target target, TargetLock lock, AgentFile agent)
      : target_(std::move(target)), lock_(std::move(lock)), file_(std::move(agent)) {}
  absl::Status begin();
  absl::Status end_session_of_before(const AgentLocation& agent, const AgentStatus& status);
  absl::StatusOr<bool> has_ended_session() const;
  absl::Status load_while_it_waits();
  absl::Status load_at_a_collection();
  absl::StatusOr<bool> has_loaded();
  absl::StatusOr<bool> has_loaded_while_it_waits();
  absl::StatusOr<bool> find_agent();
  absl::Status order();
  absl::Status renew_order();
  absl::StatusOr<std::optional<SharedAgent>> take_answer();
  absl::Status not_loaded() const;

  Target target_;
  TargetLock lock_;
  AgentFile file_;
  Step step_ = Step::kEnding;
  AgentLocation agent_;  // once it is there; control_address is 0 before
  LibcFunctions libc_;
  std::size_t others_ = 0;  // agents of other builds in it
  std::optional<HookLoader> loader_;
  std::optional<MinorCollections> collections_;
  int closed_ = 0;                // times that the program has closed the memory's descriptor
  std::uint64_t order_ = 0;       // address of its memprof_share_order
  std::uint32_t wanted_ = 0;      // what was written there
  std::uint64_t renewed_ns_ = 0;  // its lease, CLOCK_MONOTONIC
  std::chrono::steady_clock::time_point begun_at_, asked_at_, ran_at_;
  ProbeRemoval removal_;
  std::unique_ptr<Injector> injector_;  // last: it uses the members above
};

// Ends the sampling of the process, which goes on, and waits for its agent for a moment.
void end_sampling(RunTarget& run, RunningProcess& process);

}  // namespace memprofd
