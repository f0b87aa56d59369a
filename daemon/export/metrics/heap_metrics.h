// SPDX-License-Identifier: Apache-2.0
// Series of a program's heap by type, from the last snapshot of it that memprofd has read.
#pragma once

#include "daemon/export/metrics/metric_families.h"
#include "daemon/snapshot/answers/census_store.h"

namespace memprofd {

// Number of classes with series of their own; all others share one.
inline constexpr std::size_t kHeapClassSeries = 20;

void add_heap_metrics(const ShortCensus& census, MetricFamilies& out);

}  // namespace memprofd
