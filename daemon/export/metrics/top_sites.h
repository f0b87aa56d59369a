// SPDX-License-Identifier: Apache-2.0
// Chooses the sites of one target that get their own Prometheus series, and sums up the rest.
//
// A site enters when it is among the K largest by live plus allocated bytes. It
// then stays, so that series do not flicker. When 2K sites have entered, a further
// one takes a place only if it probably leaks: it is among the K with the most live
// bytes, and has twice as many as the one with the fewest, which is itself no longer
// among the K largest. All others are summed in one site `other`.
//
// Counters. A named series always shows the whole total of its site, as gRPC does.
// `other` shows the allocations of sites while they were counted in it. It keeps
// them when a site leaves, because a counter must not decrease. So growth is counted
// once, and rates across sites are right. Absolute values add up to the target's
// total until a site moves out of `other`: its history is then both in its own total
// and in `other`.
// Use rate() or increase() across sites, memprofd_allocated_bytes_total for the
// total of the target. Live bytes are gauges and always add up.
//
//     K = 1     scrape 1          scrape 2                scrape 3
//     totals    a=100 b=30        a=110 b=200             a=110 b=260
//     series    a=100 other=30    a=110 b=200 other=200   a=110 b=260 other=200
//
// Site b moves at scrape 2. Its growth of 170 until then went to `other`. Its new
// series starts at 200 and counts all later growth. If b had not existed at scrape 1,
// all of its 200 would be in its series and none in `other`. A series that ends stays
// at its total; later allocations of its site go to `other`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "daemon/aggregate/lifetime_histogram.h"
#include "daemon/query/live_ages.h"

namespace memprofd {

// Bounds of the exported lifetime histogram: kLifetimeBounds of them, a factor of 8 apart, from
// 1.024 ms to 36 min. Each is also a bound of LifetimeHistogram, so that no bucket has to be split.
inline constexpr int kLifetimeBounds = 8;
double lifetime_bound_seconds(int index);

struct LifetimeSums {
  double sum_seconds = 0;  // of all words
  // Words by lifetime, not cumulative; the last element is for lifetimes beyond every bound.
  std::array<double, kLifetimeBounds + 1> words{};

  void add(const LifetimeHistogram& histogram);
  LifetimeSums& operator+=(const LifetimeSums& other);
  // The growth since `earlier`; never negative.
  LifetimeSums growth_since(const LifetimeSums& earlier) const;
};

struct SiteKey {
  std::string function;
  std::string location;  // "file:line"; empty: unknown
  friend bool operator==(const SiteKey&, const SiteKey&) = default;
  friend bool operator<(const SiteKey& a, const SiteKey& b) {
    return std::tie(a.function, a.location) < std::tie(b.function, b.location);
  }
};

// These values never fall.
struct SiteCounts {
  double allocated_bytes = 0;
  double allocated_variance_bytes2 = 0;
  double promoted_bytes = 0;
  double promoted_variance_bytes2 = 0;
  LifetimeSums lifetimes;

  SiteCounts& operator+=(const SiteCounts& other);
  // The growth since `earlier`; never negative.
  SiteCounts growth_since(const SiteCounts& earlier) const;
};

// Everything that is exported for one site.
struct SiteSeries {
  SiteCounts counts;
  double live_bytes = 0;
  double live_variance_bytes2 = 0;
  double resident_bytes = 0;  // resident part of live native memory
  double resident_variance_bytes2 = 0;
  // Live memory older than each of kLiveAgesSeconds; values from known_ages on are unknown.
  struct Older {
    double bytes = 0;
    double variance_bytes2 = 0;
  };
  std::array<Older, kLiveAges> older{};
  int known_ages = kLiveAges;

  SiteSeries& operator+=(const SiteSeries& other);
};

using SiteSeriesMap = std::map<SiteKey, SiteSeries>;

class TopSites {
 public:
  explicit TopSites(std::size_t k) : k_(k) {}

  static const SiteKey& other_key();

  // Limits the number of named sites from the next update on, in addition to k and 2K. Sites that
  // have to go are summed in `other`, those with the least memory first.
  void set_limit(std::size_t limit) { limit_ = limit; }

  // Takes the totals of all sites of the target, as of now; returns what to
  // export, `other` included.
  SiteSeriesMap update(const SiteSeriesMap& sites);

 private:
  void admit(const SiteSeriesMap& sites);
  void drop(std::map<SiteKey, SiteSeries>::iterator site);
  void make_room(const SiteSeriesMap& sites, const std::set<SiteKey>& largest);
  void show_named(const SiteSeriesMap& sites);

  const std::size_t k_;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
  std::map<SiteKey, SiteSeries> named_;  // as last exported
  SiteCounts other_;                     // as last exported
  std::set<SiteKey> unnamed_;            // sites counted in other_ ...
  SiteCounts unnamed_total_;             // ... and their totals at that time
};

}  // namespace memprofd
