// SPDX-License-Identifier: Apache-2.0
// Everything that /metrics shows.
//
// Counters of one pid never decrease from scrape to scrape, with one exception:
// when the daemon attaches again (another process under the same pid, or the
// same one anew), they start from zero, which rate() takes for what it is.
// A target that has ended keeps its description, how it has ended, and its last counters until
// the daemon forgets it: its gauges and sites would be summed up with those of its successor. Drops
// are not labelled by pid; those of forgotten targets stay in the sum.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/export/api/heap_outcomes.h"
#include "daemon/export/api/server_stats.h"
#include "daemon/export/api/service.h"
#include "daemon/export/metrics/metric_families.h"
#include "daemon/export/metrics/top_sites.h"
#include "daemon/model/duration_counts.h"
#include "daemon/snapshot/answers/census_book.h"
#include "daemon/util/process_stats.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/version.h"
#include "prometheus/collectable.h"

namespace memprofd {

inline constexpr std::size_t kDefaultTopSites = 50;
inline constexpr std::size_t kDefaultTotalSites = 1000;

// How many sites get series of their own; up to twice as many do (see top_sites.h).
struct SiteLimits {
  std::size_t each = kDefaultTopSites;     // target
  std::size_t total = kDefaultTotalSites;  // that of all targets; who comes later has to do with
                                           // what is left
};

// Any thread may collect; collections are serialised.
class PrometheusExporter : public prometheus::Collectable {
 public:
  // service must outlive this.
  PrometheusExporter(
      ProfilerService& service, ProgramVersion version, SiteLimits limits = {},
      std::shared_ptr<const ServerStats> servers = std::make_shared<ServerStats>(),
      std::function<ProcessStats()> process = [] { return ProcessStats{}; },
      std::shared_ptr<const HeapOutcomes> heaps = std::make_shared<HeapOutcomes>(),
      std::shared_ptr<const CensusBook> censuses = std::make_shared<CensusBook>(),
      std::function<DurationCounts()> publications = [] { return DurationCounts{}; });

  std::vector<prometheus::MetricFamily> Collect() const override;
  // The exposition in text format 0.0.4, UTF-8.
  std::string text() const;

 private:
  // What has to be remembered of a target between scrapes.
  struct TargetMemory {
    std::uint64_t attached_ns = 0;
    TopSites top_sites;
    TopSites top_c_sites;
    std::size_t sites = 0;  // its share of SiteLimits::total; none once it has ended
    GcStats gc;
    DropCounters drops;
    std::uint64_t refusals = 0;  // what it says could not be read
  };

  TargetMemory& remember(const TargetSnapshot& target) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t sites_for_one_more() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void retire(const TargetMemory& memory) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void retire_forgotten(const std::vector<TargetSnapshotPtr>& targets) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_target(const TargetSnapshot& target, MetricFamilies& out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_reported(const TargetSnapshot& target, std::size_t& room, MetricFamilies& out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_drops(MetricFamilies& out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_self(MetricFamilies& out) const;

  ProfilerService& service_;
  const ProgramVersion version_;
  const SiteLimits limits_;
  const std::shared_ptr<const ServerStats> servers_;
  const std::function<ProcessStats()> process_;
  const std::shared_ptr<const HeapOutcomes> heaps_;
  const std::shared_ptr<const CensusBook> censuses_;
  const std::function<DurationCounts()> publications_;

  mutable Mutex mutex_;
  mutable std::map<int, TargetMemory> targets_ ABSL_GUARDED_BY(mutex_);
  mutable DropCounters retired_drops_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
