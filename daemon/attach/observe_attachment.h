// SPDX-License-Identifier: Apache-2.0
// A target in observe mode: one probe where an allocation of the runtime does not fit into the
// minor heap (bpf/observe.bpf.h). Nothing is written to the process, nothing runs in it, and it is
// never stopped or traced; detaching only removes the probe. If requested, probes follow the native
// heap, too (native_heap_by_probes.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/attach/agent_attachment.h"
#include "daemon/attach/attached_target.h"
#include "daemon/attach/native_heap_by_probes.h"
#include "daemon/attach/target_lock.h"

namespace memprofd {

class ObserveAttachment final : public AttachedTarget {
 public:
  // Takes the target and loads everything; the probe comes with begin(). kFailedPrecondition when
  // the program cannot be observed, kUnimplemented when the kernel cannot observe.
  static absl::StatusOr<std::unique_ptr<ObserveAttachment>> prepare(Target target, TargetLock lock,
                                                                    const AttachOptions& options);

  std::uint32_t next_generation() const override { return 1; }
  absl::Status begin(double rate, memprof_capture_by wanted) override;  // ignores the rate
  absl::StatusOr<Progress> advance() override { return Progress::kSampling; }
  std::string why_no_agent() const override { return ""; }
  std::string keep_alive(bool) const override { return ""; }
  std::string waiting_for() const override { return ""; }
  void request_stop() override { begin_detach(); }
  bool stopped() const override { return true; }
  void begin_detach() override {
    native_heap_.begin_detach();
    kernel_->probes().begin_detach();
  }
  bool detached() override;
  void detach() override;

  absl::StatusOr<std::shared_ptr<const CopyLease>> copy_lease() override;
  const Target& target() const override { return target_; }
  Target release_target() override { return std::move(target_); }
  KernelSide& kernel() override { return *kernel_; }
  const AgentControl* agent() const override { return nullptr; }
  NativeHeapFollower& native_heap() override { return native_heap_; }
  bool injecting() const override { return false; }
  double paused_seconds() const override { return 0; }
  memprof_capture_by capture() const override { return MEMPROF_CAPTURE_BY_KERNEL; }
  bool observes() const override { return true; }

 private:
  ObserveAttachment(Target target, TargetLock lock, const AttachOptions& options)
      : target_(std::move(target)), lock_(std::move(lock)), native_heap_(target_, options) {}

  std::vector<std::uint64_t> probe_addresses() const;

  Target target_;
  TargetLock lock_;
  std::unique_ptr<KernelSide> kernel_;
  NativeHeapByProbes native_heap_;
};

}  // namespace memprofd
