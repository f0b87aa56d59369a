// SPDX-License-Identifier: Apache-2.0
// A target with an agent: its BPF programs, its agent, and the way in which the agent was loaded.
// Undone in reverse order, also by the destructor.
//
// There are two ways. An agent that is in the process (linked, preloaded, or left by an earlier
// session) starts by itself at the next minor collection once its semaphore is raised. Otherwise
// the agent is injected; see injector.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/agent_plan.h"
#include "daemon/attach/attach_options.h"
#include "daemon/attach/attached_target.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/inject/injector.h"
#include "daemon/attach/kernel/capture_mode.h"
#include "daemon/attach/kernel/kernel_captures.h"
#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/attach/native_heap_by_agent.h"
#include "daemon/attach/target_lock.h"
#include "daemon/discover/target.h"

namespace memprofd {

// The part of the kernel's configuration that both modes share.
KernelConfig kernel_config(const Target& target, const AttachOptions& options);
// Loads the probes that both modes share: process lifetime and plugins.
absl::StatusOr<std::unique_ptr<KernelSide>> load_for(const Target& target,
                                                     const KernelConfig& config);

class AgentAttachment final : public AttachedTarget {
 public:
  // Takes a target and a plan in which an agent is possible; loads and attaches everything except
  // the agent. If this fails, the process is unchanged, although an existing agent was claimed for
  // a moment. Errors as in exit_codes.h.
  static absl::StatusOr<std::unique_ptr<AgentAttachment>> prepare(Target target, TargetLock lock,
                                                                  AgentPlan plan,
                                                                  const AttachOptions& options);
  ~AgentAttachment() override;

  std::uint32_t next_generation() const override { return session_.generation + 1; }
  absl::Status begin(double rate, memprof_capture_by wanted) override;
  absl::StatusOr<Progress> advance() override;
  std::string why_no_agent() const override { return why_no_agent_; }
  std::string keep_alive(bool sampling) const override;
  std::string waiting_for() const override;

  void request_stop() override;  // takes effect at the agent's next callback
  bool stopped() const override;
  void begin_detach() override;
  bool detached() override;
  void detach() override;

  absl::StatusOr<std::shared_ptr<const CopyLease>> copy_lease() override;
  const Target& target() const override { return target_; }
  Target release_target() override { return std::move(target_); }
  KernelSide& kernel() override { return *kernel_; }
  const AgentControl* agent() const override { return control_ ? &*control_ : nullptr; }
  NativeHeapFollower& native_heap() override { return native_heap_; }
  bool injecting() const override { return injector_ != nullptr; }
  double paused_seconds() const override { return paused_seconds_ + paused_for_copies_; }
  memprof_capture_by capture() const override { return session_.capture; }
  bool observes() const override { return false; }

 private:
  AgentAttachment(Target target, TargetLock lock, AgentPlan plan, const AttachOptions& options)
      : target_(std::move(target)),
        lock_(std::move(lock)),
        plan_(std::move(plan)),
        native_heap_(target_, options.native_heap_interval) {}

  absl::Status claim_agent_there();
  absl::Status load_kernel_side(const AttachOptions& options);
  bool agent_may_walk() const;
  memprof_capture_by choose_capture(memprof_capture_by wanted);
  void note_capture(const AgentStatus& status);
  absl::Status attach_capture();
  absl::Status attach_batch();
  absl::Status send_session() const;
  // Any thread.
  AgentOrders orders(const AgentStatus& agent, SessionRequest session) const;
  absl::StatusOr<Progress> agent_progress();
  absl::Status advance_injection();
  bool injector_gone();
  bool end_waking();
  bool copying() const { return !lease_.expired(); }
  void give_up_copy();
  void wait_for_copy();
  absl::Status take_injection();
  absl::Status listen_late();
  void give_up_on(const absl::Status& why);
  bool starts_by_itself(std::chrono::steady_clock::time_point now) const;
  bool is_stopped() const;
  std::vector<std::uint64_t> probe_addresses() const;
  absl::Status start_injection();
  // An agent in the process: its location and its answers.
  struct SeenAgent {
    AgentLocation at;
    absl::StatusOr<AgentStatus> status;
  };
  std::optional<SeenAgent> find_loaded_agent(const std::string& name) const;
  absl::Status not_loaded() const;
  absl::StatusOr<AgentLocation> send_to_loaded_agent(const SessionRequest& session,
                                                     const std::string& name);
  void adopt(const AgentLocation& agent);
  absl::Status attach_agent_probes(const SharedFd& file, const AgentLocation& at);

  Target target_;
  TargetLock lock_;
  AgentPlan plan_;
  std::unique_ptr<KernelSide> kernel_;
  std::optional<AgentLocation> injected_agent_;  // claimed by the injector; set after its end
  std::optional<AgentControl> control_;
  AgentLocation agent_;  // of control_
  NativeHeapByAgent native_heap_;
  bool claimed_ = false;  // the agent of control_ is ours (agent_owner.h)
  CaptureMode capture_mode_ = CaptureMode::kKernel;
  std::optional<KernelCapture> kernel_capture_;  // while its probe exists
  SessionRequest session_;                       // the last request
  bool begun_ = false;
  std::chrono::steady_clock::time_point begun_at_;
  ProbeRemoval removal_;
  std::unique_ptr<Injector> injector_;  // last: it uses the members above
  std::chrono::steady_clock::time_point tripped_at_;
  bool injected_ = false;
  SharedFd agent_copy_;  // the mapped copy, if there is one
  int in_use_ = 0;       // sessions that found Memprof in use, with agents of other builds there
  std::string why_no_agent_;
  double paused_seconds_ = 0;
  std::atomic<double> paused_for_copies_{0};
  std::atomic<double> copy_pause_ratio_{1};  // see CopyLease
  std::weak_ptr<CopyLease> lease_;           // lease of the current copy
};

}  // namespace memprofd
