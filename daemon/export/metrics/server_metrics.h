// SPDX-License-Identifier: Apache-2.0
// Metrics of memprofd's own servers and of the work that they cause.
#pragma once

#include "daemon/export/api/heap_outcomes.h"
#include "daemon/export/api/server_stats.h"
#include "daemon/export/metrics/metric_families.h"

namespace memprofd {

void add_server_metrics(const ServerStats& stats, MetricFamilies& out);
void add_heap_outcomes(const HeapOutcomes& heaps, MetricFamilies& out);

}  // namespace memprofd
