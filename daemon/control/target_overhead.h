// SPDX-License-Identifier: Apache-2.0
// Measures the share of one target's CPU that profiling uses, and applies its budget: passes
// measurements to OverheadBudget, window by window. Owned by the control thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/attach/attached_target.h"
#include "daemon/attach/budget/capture_choice.h"
#include "daemon/attach/budget/overhead_budget.h"
#include "daemon/attach/kernel/bpf_statistics.h"
#include "daemon/attach/kernel/capture_mode.h"
#include "daemon/pipeline/target_pipeline.h"

namespace memprofd {

class TargetOverhead {
 public:
  // share and ceiling as in OverheadBudget. If the kernel does not measure BPF programs for us,
  // their share of the cost is estimated from the events that they have sent.
  TargetOverhead(double share, double ceiling, CaptureMode capture);

  // Call this repeatedly while the target is sampled. Returns, at the end of a window, the session
  // that is due.
  struct Due {
    OverheadBudget::Change rate = OverheadBudget::Change::kNone;
    bool capture = false;  // with another capture mode: capture()
    bool any() const { return capture || rate != OverheadBudget::Change::kNone; }
  };
  Due measure(const AttachedTarget& target, const KernelSide& kernel,
              const PipelineSignals& signals);
  // A session has ended; the next measure() begins a window.
  void end_window() { began_.reset(); }

  OverheadBudget& budget() { return budget_; }
  const OverheadBudget& budget() const { return budget_; }
  OverheadInfo info() const;
  // The capture mode that the next session should have.
  memprof_capture_by capture() const { return choice_ ? choice_->wanted() : capture_of(mode_); }
  std::string why_capture() const { return choice_ ? choice_->why() : ""; }

 private:
  struct Reading {
    std::chrono::steady_clock::time_point at;
    std::uint64_t cpu_ns = 0;
    std::uint64_t memprofd_ns = 0;
    ProfilingCounts counts;
  };
  std::optional<Reading> read(const AttachedTarget& target, const KernelSide& kernel,
                              const PipelineSignals& signals) const;
  static OverheadWindow between(const Reading& begin, const Reading& end);

  std::optional<BpfStatistics> statistics_;  // not set: not permitted
  OverheadBudget budget_;
  const CaptureMode mode_;
  // Unset if the mode was requested, or the cost of kernel capture cannot be measured.
  std::optional<CaptureChoice> choice_;
  std::optional<Reading> began_;
};

}  // namespace memprofd
