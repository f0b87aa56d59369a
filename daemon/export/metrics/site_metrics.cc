// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/site_metrics.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/query/live_ages.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr MetricName kSiteAllocated{"memprofd_site_allocated_bytes_total",
                                    "Bytes allocated at the site, estimated from samples."};
constexpr MetricName kSiteAllocatedError{
    "memprofd_site_allocated_bytes_stderr",
    "One standard error of memprofd_site_allocated_bytes_total, in bytes."};
constexpr MetricName kSitePromoted{
    "memprofd_site_promoted_bytes_total",
    "Bytes allocated at the site and promoted to the major heap, estimated from samples."};
constexpr MetricName kSitePromotedError{
    "memprofd_site_promoted_bytes_stderr",
    "One standard error of memprofd_site_promoted_bytes_total, in bytes."};
constexpr MetricName kSiteLive{
    "memprofd_site_live_bytes",
    "Bytes allocated at the site and not deallocated yet, estimated from samples."};
constexpr MetricName kSiteLiveError{"memprofd_site_live_bytes_stderr",
                                    "One standard error of memprofd_site_live_bytes, in bytes."};
constexpr MetricName kSiteOlder{
    "memprofd_site_live_older_bytes",
    "Bytes of memprofd_site_live_bytes allocated more than older_than seconds ago."};
constexpr MetricName kSiteOlderError{
    "memprofd_site_live_older_bytes_stderr",
    "One standard error of memprofd_site_live_older_bytes, in bytes."};
constexpr MetricName kSiteLifetime{"memprofd_site_lifetime_seconds",
                                   "Lifetimes of the site's dead words, estimated from samples. "
                                   "Quantiles are too low while much is alive."};

constexpr MetricName kSiteAllocatedC{"memprofd_site_allocated_c_bytes_total",
                                     "Bytes of native memory (malloc) allocated by C code called "
                                     "at the site, estimated from samples."};
constexpr MetricName kSiteAllocatedCError{
    "memprofd_site_allocated_c_bytes_stderr",
    "One standard error of memprofd_site_allocated_c_bytes_total, in bytes."};
constexpr MetricName kSiteLiveC{"memprofd_site_live_c_bytes",
                                "Part of memprofd_site_allocated_c_bytes_total that has not been "
                                "freed, estimated from samples."};
constexpr MetricName kSiteLiveCError{"memprofd_site_live_c_bytes_stderr",
                                     "One standard error of memprofd_site_live_c_bytes, in bytes."};
constexpr MetricName kSiteResidentC{
    "memprofd_site_resident_c_bytes",
    "Part of memprofd_site_live_c_bytes in resident pages, at the last reading."};
constexpr MetricName kSiteResidentCError{
    "memprofd_site_resident_c_bytes_stderr",
    "One standard error of memprofd_site_resident_c_bytes, in bytes."};

SiteKey key_of(const Location& location) {
  SiteKey key{valid_utf8(location.function), ""};
  if (!location.file.empty()) {
    key.location = absl::StrCat(valid_utf8(location.file), ":", location.line);
  }
  return key;
}

constexpr double kSquared = kBytesPerWord * kBytesPerWord;

SiteSeries series_of(const Counters& counters) {
  SiteSeries series;
  series.counts.allocated_bytes = counters.allocated.bytes();
  series.counts.allocated_variance_bytes2 = counters.allocated.variance_words2 * kSquared;
  series.counts.promoted_bytes = counters.promoted.bytes();
  series.counts.promoted_variance_bytes2 = counters.promoted.variance_words2 * kSquared;
  series.counts.lifetimes.add(counters.deaths.histogram());
  series.live_bytes = counters.live.bytes();
  series.live_variance_bytes2 = counters.live.variance_words2 * kSquared;
  series.resident_bytes = counters.resident.bytes();
  series.resident_variance_bytes2 = counters.resident.variance_words2 * kSquared;
  return series;
}

bool is_c(const ProfileRow& row) { return row.alloc_class.source == Source::kMalloc; }

bool is_other(const ProfileRow& row) { return !is_c(row); }

prometheus::ClientMetric::Histogram histogram_of(const LifetimeSums& lifetimes) {
  prometheus::ClientMetric::Histogram histogram;
  double words = 0;
  for (int i = 0; i < kLifetimeBounds; ++i) {
    words += lifetimes.words[i];
    histogram.bucket.push_back({static_cast<std::uint64_t>(words), lifetime_bound_seconds(i)});
  }
  histogram.sample_count = static_cast<std::uint64_t>(words + lifetimes.words[kLifetimeBounds]);
  histogram.sample_sum = lifetimes.sum_seconds;
  return histogram;
}

void add_ages(const MetricLabels& site, const SiteSeries& series, MetricFamilies& out) {
  for (int age = 0; age < series.known_ages; ++age) {
    MetricLabels labels = site;
    labels.push_back({"older_than", absl::StrCat(kLiveAgesSeconds[age])});
    out.gauge(kSiteOlder, labels, series.older[age].bytes);
    out.gauge(kSiteOlderError, labels, std::sqrt(series.older[age].variance_bytes2));
  }
}

std::vector<SiteSeries> series_of(const std::vector<Group>& groups) {
  std::vector<SiteSeries> series;
  series.reserve(groups.size());
  for (const Group& group : groups) series.push_back(series_of(group.counters));
  return series;
}

// Leaves out groups without any counting row.
SiteSeriesMap by_key(const std::vector<Group>& groups, const std::vector<SiteSeries>& series) {
  SiteSeriesMap sites;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].heaviest != nullptr) sites[key_of(groups[i].location)] += series[i];
  }
  return sites;
}

}  // namespace

SiteTotals::SiteTotals(const ProfileSnapshot& snapshot)
    : snapshot_(snapshot), rows_(snapshot.rows, *snapshot.symbolizer, nullptr, GroupBy::kSite) {}

SiteSeriesMap SiteTotals::series() const {
  const std::vector<Group> groups = rows_.all_sums(is_other);
  std::vector<SiteSeries> series = series_of(groups);
  add_ages(series);
  return by_key(groups, series);
}

SiteSeriesMap SiteTotals::native_series() const {
  const std::vector<Group> groups = rows_.all_sums(is_c);
  return by_key(groups, series_of(groups));
}

// Adds each row's old bytes to the series of its group.
void SiteTotals::add_ages(std::vector<SiteSeries>& series) const {
  const LiveAges ages = live_ages(snapshot_);
  for (SiteSeries& site : series) site.known_ages = ages.known;
  for (int age = 0; age < ages.known; ++age) {
    std::vector<Portion> sums(series.size());
    for (std::size_t row = 0; row < ages.older[age].size(); ++row) {
      if (!is_c(snapshot_.rows[row])) sums[rows_.group_of_row(row)] += ages.older[age][row];
    }
    for (std::size_t site = 0; site < series.size(); ++site) {
      const Estimate older = sums[site].estimate();
      series[site].older[age] = {older.bytes(), older.variance_words2 * kSquared};
    }
  }
}

void add_site_metrics(const SiteSeriesMap& sites, bool follows_blocks, MetricFamilies& out) {
  for (const auto& [key, series] : sites) {
    const MetricLabels labels{{"function", key.function}, {"location", key.location}};
    out.counter(kSiteAllocated, labels, series.counts.allocated_bytes);
    out.gauge(kSiteAllocatedError, labels, std::sqrt(series.counts.allocated_variance_bytes2));
    if (!follows_blocks) continue;
    out.counter(kSitePromoted, labels, series.counts.promoted_bytes);
    out.gauge(kSitePromotedError, labels, std::sqrt(series.counts.promoted_variance_bytes2));
    out.gauge(kSiteLive, labels, series.live_bytes);
    out.gauge(kSiteLiveError, labels, std::sqrt(series.live_variance_bytes2));
    add_ages(labels, series, out);
  }
}

void add_lifetime_metrics(const std::map<SiteKey, LifetimeSums>& sites, MetricFamilies& out) {
  for (const auto& [key, lifetimes] : sites) {
    out.histogram(kSiteLifetime, {{"function", key.function}, {"location", key.location}},
                  histogram_of(lifetimes));
  }
}

void add_native_site_metrics(const SiteSeriesMap& sites, MetricFamilies& out) {
  for (const auto& [key, series] : sites) {
    const MetricLabels labels{{"function", key.function}, {"location", key.location}};
    out.counter(kSiteAllocatedC, labels, series.counts.allocated_bytes);
    out.gauge(kSiteAllocatedCError, labels, std::sqrt(series.counts.allocated_variance_bytes2));
    out.gauge(kSiteLiveC, labels, series.live_bytes);
    out.gauge(kSiteLiveCError, labels, std::sqrt(series.live_variance_bytes2));
    out.gauge(kSiteResidentC, labels, series.resident_bytes);
    out.gauge(kSiteResidentCError, labels, std::sqrt(series.resident_variance_bytes2));
  }
}

}  // namespace memprofd
