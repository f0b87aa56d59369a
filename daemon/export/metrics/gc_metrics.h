// SPDX-License-Identifier: Apache-2.0
// Series from the runtime's own counters. They are read from the memory of a
// process that runs on meanwhile and is not trusted.
#pragma once

#include <array>
#include <string>

#include "daemon/discover/gc_stats.h"
#include "daemon/export/metrics/metric_families.h"

namespace memprofd {

// now, with no counter below its value in last and no garbage (infinite or NaN)
// taken over; last when now is not valid, so that counts stay after an exit.
GcStats advance_gc_stats(const GcStats& last, const GcStats& now);

// Nothing when the numbers were never valid.
void add_gc_metrics(const GcStats& gc, MetricFamilies& out);

// Pauses by phase.
using GcPauses = std::array<memprof_pauses, MEMPROF_GC_PHASES>;
// Adds what there is more in now than in last, an earlier state of it.
void add_growth(const GcStats& last, const GcStats& now, GcPauses& sum);
void add_pause_metrics(const GcPauses& pauses, MetricFamilies& out);

}  // namespace memprofd
