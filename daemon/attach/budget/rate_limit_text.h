// SPDX-License-Identifier: Apache-2.0
// Explains in one line why a target is sampled at a lower rate than requested, and the remedy.
// Every surface shows this text.
#pragma once

#include <string>

#include "daemon/attach/budget/overhead_budget.h"
#include "daemon/attach/kernel/capture_mode.h"

namespace memprofd {

// Empty: the rate is the requested one. capture: in the running session; mode: memprofd's setting;
// memprofd_cores: share of a processor that memprofd uses for the target.
std::string rate_limit_text(const OverheadBudget& budget, memprof_capture_by capture,
                            CaptureMode mode, double memprofd_cores);

}  // namespace memprofd
