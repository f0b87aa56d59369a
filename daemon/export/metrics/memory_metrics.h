// SPDX-License-Identifier: Apache-2.0
// Series of a program's memory as the kernel counts it.
#pragma once

#include <string>

#include "daemon/discover/memory_status.h"
#include "daemon/export/metrics/metric_families.h"

namespace memprofd {

void add_memory_metrics(const MemoryStatus& memory, MetricFamilies& out);

}  // namespace memprofd
