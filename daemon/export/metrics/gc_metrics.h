// SPDX-License-Identifier: Apache-2.0
// Series from the runtime's own counters, which are read from the memory of a running and untrusted
// process.
#pragma once

#include <array>
#include <string>

#include "daemon/discover/gc_stats.h"
#include "daemon/export/metrics/metric_families.h"

namespace memprofd {

// Returns now, with no counter below its value in last and without infinite values and NaN. Returns
// last if now is not valid, so that counts stay after an exit.
GcStats advance_gc_stats(const GcStats& last, const GcStats& now);

// Adds nothing if the numbers were never valid.
void add_gc_metrics(const GcStats& gc, MetricFamilies& out);

// Pauses by phase.
using GcPauses = std::array<memprof_pauses, MEMPROF_GC_PHASES>;
// Adds the pauses of now that are not in last, an earlier state.
void add_growth(const GcStats& last, const GcStats& now, GcPauses& sum);
void add_pause_metrics(const GcPauses& pauses, MetricFamilies& out);

}  // namespace memprofd
