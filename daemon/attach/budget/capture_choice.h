// SPDX-License-Identifier: Apache-2.0
// Chooses the capture mode for --capture auto: runtime or kernel capture, whichever costs this
// program less per sample. Has no side effects: windows of measurements in, a choice out.
//
//   runtime ---- the budget limits the rate, a hit costs less ----> kernel, measured
//      ^                                                                |
//      |------- not cheaper by a quarter, or too few samples -----------|
//      |                                                                v
//      '------------------- dearer than the runtime was -------------- kernel
//
// Runtime capture comes first: it was cheaper wherever both were measured. That is uncertain if a
// probe hit is cheap and stacks are deep; then the cost of kernel capture is measured for a moment.
// Each change begins a session, so a trial is repeated only if the cost of runtime capture has
// risen by half.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/attach/budget/profiling_cost.h"

namespace memprofd {

class CaptureChoice {
 public:
  static constexpr std::uint64_t kEnoughSamples = 200;  // to determine a cost
  static constexpr double kTrialSeconds = 10;           // at most, of the kernel's capture
  static constexpr double kWorthChanging = 0.75;        // of the other mode's cost
  static constexpr double kWorthRepeating = 1.5;

  explicit CaptureChoice(double trap_ns) : trap_ns_(trap_ns) {}

  // MEMPROF_CAPTURE_BY_RUNTIME or MEMPROF_CAPTURE_BY_KERNEL.
  memprof_capture_by wanted() const { return wanted_; }
  // True while the cost of kernel capture is measured: the rate must not be judged by that cost
  // yet.
  bool trying() const { return trying_; }
  // Call it with consecutive windows of about a second. by: the mode of the window, which may be
  // runtime capture even if kernel capture was wanted. is_limited: the budget keeps the rate below
  // the requested one. Returns true if wanted() has changed: then a session with that mode is due.
  bool judge(double seconds, const ProfilingCounts& counts, memprof_capture_by by, bool is_limited);
  // Reason of the last change: "runtime capture: a sample costs 10.8 µs by the kernel, 6.1 µs by
  // the runtime".
  std::string why() const;

 private:
  bool change_to(memprof_capture_by wanted, bool trying);
  bool worth_a_trial() const;

  const double trap_ns_;
  memprof_capture_by wanted_ = MEMPROF_CAPTURE_BY_RUNTIME;
  bool trying_ = false;
  bool settling_ = true;  // the next window is the first of a session
  // Time since the session began, or since the last known cost.
  double seconds_ = 0;
  double cost_ = 0;  // seconds
  std::uint64_t samples_ = 0;
  // Seconds for a sample; 0: not known.
  double runtime_price_ = 0;
  double kernel_price_ = 0;
  double tried_above_ = 0;  // cost of runtime capture at the last trial
};

}  // namespace memprofd
