// One target being profiled: its BPF programs, its agent, and how they came
// there. Undone in reverse order, also by the destructor.
//
//     Waiting --advance()--> Sampling --request_stop()/advance()--> stopped
//        |                      |
//        +------- error --------+---> the caller drops the attachment
//
// Two ways in. An agent that is in the process (linked, preloaded, or left by an
// earlier session) starts by itself at the next minor collection once its
// semaphore is up. Otherwise the agent is injected; see injector.h.
//
// Owned by the control thread; kernel() is shared with the ingest thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/agent_control.h"
#include "daemon/attach/agent_file.h"
#include "daemon/attach/injector.h"
#include "daemon/attach/kernel_side.h"
#include "daemon/attach/libc_functions.h"
#include "daemon/attach/target_lock.h"
#include "daemon/discover/target.h"

namespace memprofd {

struct AttachOptions {
  std::string agent_path;
  bool no_inject = false;
  std::uint32_t max_frames = 0;
  std::uint32_t ring_bytes = 0;  // 0: as KernelConfig has it
};

class Attachment {
 public:
  // Takes the target, loads and attaches everything but the agent. Nothing has
  // been done to the process when this fails. Errors as in exit_codes.h.
  static absl::StatusOr<std::unique_ptr<Attachment>> prepare(Target target,
                                                             const AttachOptions& options);
  ~Attachment();

  // The next session's number and rate, to be told to whoever consumes its
  // records before begin().
  std::uint32_t next_generation() const { return generation_ + 1; }
  // Asks for a session with this rate: the first one, or a new rate.
  absl::Status begin(double rate);

  enum class Progress { kWaiting, kSampling };
  // Takes the next step towards sampling; to be called again and again while it
  // answers kWaiting. The status says why an attach is impossible.
  absl::StatusOr<Progress> advance();
  // To be called every second: keeps the session, or the request for it, alive.
  // False when the agent has ended a session that ran (`sampling`), as it does
  // when this was not called for long.
  bool keep_alive(bool sampling) const;
  // Why it is waiting, one line.
  std::string waiting_for() const;

  // Asks the agent to stop at its next callback; true once it has.
  void request_stop();
  bool stopped() const;
  // Takes the probes out. What the ring holds stays readable.
  void detach_probes();

  const Target& target() const { return target_; }
  KernelSide& kernel() { return *kernel_; }
  // Null until the agent is in the process.
  const AgentControl* agent() const { return control_ ? &*control_ : nullptr; }
  double paused_seconds() const { return paused_seconds_; }

 private:
  Attachment(Target target, TargetLock lock) : target_(std::move(target)), lock_(std::move(lock)) {}

  absl::Status prepare_agent(const AttachOptions& options);
  absl::Status load_kernel_side(const AttachOptions& options);
  absl::Status attach_batch();
  // On any thread.
  absl::Status request(const AgentControl& control, double rate, std::uint32_t generation) const;
  absl::Status check_injectable() const;
  absl::StatusOr<Progress> agent_progress() const;
  absl::Status advance_injection();
  bool starts_by_itself(std::chrono::steady_clock::time_point now) const;
  bool is_stopped() const;
  absl::Status start_injection();
  absl::StatusOr<AgentLocation> tell_loaded_agent(double rate, std::uint32_t generation) const;
  void adopt(const AgentLocation& agent);

  Target target_;
  TargetLock lock_;
  std::optional<AgentFile> file_;  // to inject; empty when the agent was there
  LibcFunctions libc_;
  bool may_inject_ = false;
  std::unique_ptr<KernelSide> kernel_;
  std::optional<AgentControl> control_;
  AgentLocation agent_;  // of control_
  std::uint32_t generation_ = 0;
  double rate_ = 0;
  bool begun_ = false;
  std::chrono::steady_clock::time_point begun_at_;
  std::unique_ptr<Injector> injector_;  // last: it uses what is above
  std::chrono::steady_clock::time_point hurried_at_;
  bool injected_ = false;
  double paused_seconds_ = 0;
};

}  // namespace memprofd
