// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/top_sites.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/util/clock.h"

namespace memprofd {
namespace {

// The bucket of LifetimeHistogram that ends at the first exported bound, 2^10 us, and the number of
// its half octaves between two bounds.
constexpr int kFirstBoundBucket = 20;
constexpr int kBucketsPerBound = 6;

double score(const SiteSeries& site) { return site.counts.allocated_bytes + site.live_bytes; }

// The k sites with the highest positive scores, the highest first.
template <typename Score>
std::vector<SiteKey> top(const SiteSeriesMap& sites, std::size_t k, Score score_of) {
  std::vector<const SiteSeriesMap::value_type*> ranked;
  for (const auto& site : sites) {
    // A site with the same name as the remainder row stays in that row.
    if (score_of(site.second) > 0 && site.first != TopSites::other_key()) ranked.push_back(&site);
  }
  const std::size_t n = std::min(k, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(n), ranked.end(),
                    [&](auto* a, auto* b) {
                      const double score_a = score_of(a->second), score_b = score_of(b->second);
                      return score_a != score_b ? score_a > score_b : a->first < b->first;
                    });
  std::vector<SiteKey> keys;
  for (std::size_t i = 0; i < n; ++i) keys.push_back(ranked[i]->first);
  return keys;
}

}  // namespace

double lifetime_bound_seconds(int index) {
  return LifetimeHistogram::upper_bound_ns(kFirstBoundBucket + kBucketsPerBound * index) /
         kNsPerSecond;
}

void LifetimeSums::add(const LifetimeHistogram& histogram) {
  sum_seconds += histogram.sum_ns() / kNsPerSecond;
  for (int bucket = 0; bucket < LifetimeHistogram::kBuckets; ++bucket) {
    const int above_first = std::max(0, bucket - kFirstBoundBucket);
    const int bound = (above_first + kBucketsPerBound - 1) / kBucketsPerBound;
    words[std::min(bound, kLifetimeBounds)] += histogram.words(bucket);
  }
}

LifetimeSums& LifetimeSums::operator+=(const LifetimeSums& other) {
  sum_seconds += other.sum_seconds;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += other.words[i];
  return *this;
}

LifetimeSums LifetimeSums::growth_since(const LifetimeSums& earlier) const {
  LifetimeSums out;
  out.sum_seconds = std::max(0.0, sum_seconds - earlier.sum_seconds);
  for (std::size_t i = 0; i < words.size(); ++i) {
    out.words[i] = std::max(0.0, words[i] - earlier.words[i]);
  }
  return out;
}

SiteCounts& SiteCounts::operator+=(const SiteCounts& other) {
  allocated_bytes += other.allocated_bytes;
  allocated_variance_bytes2 += other.allocated_variance_bytes2;
  promoted_bytes += other.promoted_bytes;
  promoted_variance_bytes2 += other.promoted_variance_bytes2;
  lifetimes += other.lifetimes;
  return *this;
}

SiteCounts SiteCounts::growth_since(const SiteCounts& earlier) const {
  SiteCounts out;
  out.allocated_bytes = std::max(0.0, allocated_bytes - earlier.allocated_bytes);
  out.allocated_variance_bytes2 =
      std::max(0.0, allocated_variance_bytes2 - earlier.allocated_variance_bytes2);
  out.promoted_bytes = std::max(0.0, promoted_bytes - earlier.promoted_bytes);
  out.promoted_variance_bytes2 =
      std::max(0.0, promoted_variance_bytes2 - earlier.promoted_variance_bytes2);
  out.lifetimes = lifetimes.growth_since(earlier.lifetimes);
  return out;
}

SiteSeries& SiteSeries::operator+=(const SiteSeries& other) {
  counts += other.counts;
  live_bytes += other.live_bytes;
  live_variance_bytes2 += other.live_variance_bytes2;
  resident_bytes += other.resident_bytes;
  resident_variance_bytes2 += other.resident_variance_bytes2;
  for (int age = 0; age < kLiveAges; ++age) {
    older[age].bytes += other.older[age].bytes;
    older[age].variance_bytes2 += other.older[age].variance_bytes2;
  }
  known_ages = std::min(known_ages, other.known_ages);
  return *this;
}

const SiteKey& TopSites::other_key() {
  static const SiteKey key{"other", ""};
  return key;
}

void TopSites::admit(const SiteSeriesMap& sites) {
  const std::size_t most = std::min(2 * k_, limit_);
  while (named_.size() > most) {
    drop(std::ranges::min_element(named_, {}, [](const auto& site) { return score(site.second); }));
  }
  std::set<SiteKey> largest;
  for (const SiteKey& key : top(sites, std::min(k_, most), score)) {
    largest.insert(key);
    if (named_.size() < most) named_.try_emplace(key);
  }
  if (named_.size() >= most) make_room(sites, largest);
}

// Counts that a site's own series has shown are not counted again in `other`.
void TopSites::drop(std::map<SiteKey, SiteSeries>::iterator site) {
  unnamed_.insert(site->first);
  unnamed_total_ += site->second.counts;
  named_.erase(site);
}

// Sites with the least live memory go first.
void TopSites::make_room(const SiteSeriesMap& sites, const std::set<SiteKey>& largest) {
  const auto live_of = [&](const SiteKey& key) {
    const auto now = sites.find(key);
    return now == sites.end() ? 0 : now->second.live_bytes;
  };
  for (const SiteKey& newcomer : top(sites, k_, [](const auto& site) { return site.live_bytes; })) {
    if (named_.contains(newcomer)) continue;
    auto least = named_.end();
    for (auto at = named_.begin(); at != named_.end(); ++at) {
      if (largest.contains(at->first)) continue;
      if (least == named_.end() || live_of(at->first) < live_of(least->first)) least = at;
    }
    if (least == named_.end() || live_of(newcomer) <= 2 * live_of(least->first)) return;
    drop(least);
    named_.try_emplace(newcomer);
  }
}

void TopSites::show_named(const SiteSeriesMap& sites) {
  for (auto& [key, series] : named_) {
    const auto now = sites.find(key);
    if (now != sites.end()) {
      series = now->second;
      continue;
    }
    // The site got another name because symbols were found since: its counters stay, and live
    // memory is exported under the new name.
    series.live_bytes = series.live_variance_bytes2 = 0;
    series.resident_bytes = series.resident_variance_bytes2 = 0;
    series.older = {};
  }
}

SiteSeriesMap TopSites::update(const SiteSeriesMap& sites) {
  admit(sites);
  show_named(sites);

  SiteCounts counted;  // counts for other_: sites without a series, and sites that have just got
                       // one
  SiteSeries unnamed;
  std::set<SiteKey> unnamed_keys;
  for (const auto& [key, series] : sites) {
    const bool is_named = named_.contains(key);
    if (!is_named || unnamed_.contains(key)) counted += series.counts;
    if (is_named) continue;
    unnamed += series;
    unnamed_keys.insert(key);
  }
  other_ += counted.growth_since(unnamed_total_);
  unnamed_total_ = unnamed.counts;
  unnamed_ = std::move(unnamed_keys);

  SiteSeriesMap out = named_;
  unnamed.counts = other_;
  out[other_key()] = unnamed;
  return out;
}

}  // namespace memprofd
