// SPDX-License-Identifier: Apache-2.0
// Why a target is sampled at a lower rate than was asked for, and what would raise it, in one line.
// Every place that shows it shows this text.
#pragma once

#include <string>

#include "daemon/attach/budget/overhead_budget.h"
#include "daemon/attach/kernel/capture_mode.h"

namespace memprofd {

// Empty: the rate is the one asked for. capture: in the running session; mode: what memprofd was
// told; memprofd_cores: of a processor that memprofd takes for the target.
std::string rate_limit_text(const OverheadBudget& budget, memprof_capture_by capture,
                            CaptureMode mode, double memprofd_cores);

}  // namespace memprofd
