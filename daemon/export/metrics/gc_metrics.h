// SPDX-License-Identifier: Apache-2.0
// Series from the runtime's own counters. They are read from the memory of a
// process that runs on meanwhile and is not trusted.
#pragma once

#include <string>

#include "daemon/export/metrics/metric_families.h"
#include "daemon/history/snapshot.h"

namespace memprofd {

// now, with no counter below its value in last and no garbage (infinite or NaN)
// taken over; last when now is not valid, so that counts stay after an exit.
GcStats advance_gc_stats(const GcStats& last, const GcStats& now);

// Nothing when the numbers were never valid.
void add_gc_metrics(const GcStats& gc, bool pauses, MetricFamilies& out);

}  // namespace memprofd
