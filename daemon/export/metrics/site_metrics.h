// SPDX-License-Identifier: Apache-2.0
// Per-site series of one target.
#pragma once

#include <string>

#include "daemon/export/metrics/metric_families.h"
#include "daemon/export/metrics/top_sites.h"
#include "daemon/history/snapshot.h"

namespace memprofd {

// Totals of all sites of a snapshot under the labels that will be shown; sites
// whose labels are equal are summed. C's memory, which is in no other sum, is apart,
// without ages.
SiteSeriesMap site_series(const TargetSnapshot& snapshot);
SiteSeriesMap c_site_series(const TargetSnapshot& snapshot);

void add_site_metrics(const SiteSeriesMap& sites, bool follows_blocks, MetricFamilies& out);
void add_c_site_metrics(const SiteSeriesMap& sites, MetricFamilies& out);

}  // namespace memprofd
