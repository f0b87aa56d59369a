// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/capture_choice.h"

#include "absl/strings/str_cat.h"
#include "daemon/util/units.h"

namespace memprofd {

bool CaptureChoice::judge(double seconds, const ProfilingCounts& counts, memprof_capture_by by,
                          bool is_limited) {
  if (by != wanted_) {  // kernel capture already serves enough targets of the program
    change_to(by, false);
    return false;
  }
  if (settling_) {
    settling_ = false;
    return false;
  }
  seconds_ += seconds;
  cost_ += cost_seconds(counts, trap_ns_);
  samples_ += counts.samples;
  const bool is_kernel = by == MEMPROF_CAPTURE_BY_KERNEL;
  if (samples_ < kEnoughSamples) {
    if (!trying_ || seconds_ < kTrialSeconds) return false;
    kernel_price_ = 0;
    return change_to(MEMPROF_CAPTURE_BY_RUNTIME, false);
  }
  (is_kernel ? kernel_price_ : runtime_price_) = cost_ / static_cast<double>(samples_);
  seconds_ = cost_ = 0;
  samples_ = 0;
  if (is_kernel) {
    const double most = (trying_ ? kWorthChanging : 1) * runtime_price_;
    if (kernel_price_ > most && (trying_ || is_limited)) {
      return change_to(MEMPROF_CAPTURE_BY_RUNTIME, false);
    }
    trying_ = false;
    return false;
  }
  if (!is_limited || !worth_a_trial()) return false;
  tried_above_ = runtime_price_;
  return change_to(MEMPROF_CAPTURE_BY_KERNEL, true);
}

// A hit costs at least the trap plus a sample without its callstack, however short the walk is.
bool CaptureChoice::worth_a_trial() const {
  const double least = cost_seconds({.samples = 1, .probe_hits = 1}, trap_ns_);
  return least < kWorthChanging * runtime_price_ && runtime_price_ > kWorthRepeating * tried_above_;
}

bool CaptureChoice::change_to(memprof_capture_by wanted, bool trying) {
  wanted_ = wanted;
  trying_ = trying;
  settling_ = true;
  seconds_ = cost_ = 0;
  samples_ = 0;
  return true;
}

std::string CaptureChoice::why() const {
  if (trying_) {
    return absl::StrCat("kernel capture, to measure it: a sample costs ",
                        format_duration(runtime_price_), " by the runtime");
  }
  if (kernel_price_ == 0) return "runtime capture: too few samples to measure kernel capture";
  return absl::StrCat("runtime capture: a sample costs ", format_duration(kernel_price_),
                      " by the kernel, ", format_duration(runtime_price_), " by the runtime");
}

}  // namespace memprofd
