// SPDX-License-Identifier: Apache-2.0
// Per-site series of one target.
#pragma once

#include <map>
#include <vector>

#include "daemon/export/metrics/metric_families.h"
#include "daemon/export/metrics/top_sites.h"
#include "daemon/history/snapshot.h"
#include "daemon/query/roll_up.h"

namespace memprofd {

// Totals of all sites of a snapshot by the labels that will be shown; sites with equal labels are
// summed.
class SiteTotals {
 public:
  // The snapshot must outlive this.
  explicit SiteTotals(const ProfileSnapshot& snapshot);

  SiteSeriesMap series() const;
  // The native heap, which no other sum contains; without ages.
  SiteSeriesMap native_series() const;

 private:
  void add_ages(std::vector<SiteSeries>& series) const;

  const ProfileSnapshot& snapshot_;
  const GroupedRows rows_;
};

// Number of series of one site, without its lifetimes.
inline constexpr std::size_t kSeriesOfSite = 6 + 2 * kLiveAges;
inline constexpr std::size_t kSeriesOfNativeSite = 6;

void add_site_metrics(const SiteSeriesMap& sites, bool follows_blocks, MetricFamilies& out);
void add_lifetime_metrics(const std::map<SiteKey, LifetimeSums>& sites, MetricFamilies& out);
void add_native_site_metrics(const SiteSeriesMap& sites, MetricFamilies& out);

}  // namespace memprofd
