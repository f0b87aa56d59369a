// SPDX-License-Identifier: Apache-2.0
// Series of one target as a whole: identity, samples, cost.
#pragma once

#include <string>

#include "daemon/export/metrics/metric_families.h"
#include "daemon/history/snapshot.h"

namespace memprofd {

// Identity and state of a target, and how it ended.
void add_target_identity(const ProfileSnapshot& target, MetricFamilies& out);
// Counters and gauges; only the counters of an ended target.
void add_target_metrics(const ProfileSnapshot& target, MetricFamilies& out);

}  // namespace memprofd
