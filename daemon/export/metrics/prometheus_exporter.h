// SPDX-License-Identifier: Apache-2.0
// Everything that /metrics shows.
//
// Counters of one pid never decrease from scrape to scrape, with one exception: a new attach (of
// the same process, or of another one with its pid) starts them from zero, which rate() treats as
// a counter reset. An ended target keeps its description and its cause of end until the daemon
// forgets it, and its last counters for some minutes. It has no gauges and sites, which would be
// added to those of its successor. Drops have no label for the pid; the sum includes those of
// forgotten targets.
//
// A scrape has at most SiteLimits::series series. They come in blocks, each of one kind and one
// target (or program, for histograms). A block that does not fit is omitted as a whole, and
// counted. Kinds are taken in the order of Block; within a kind, first the oldest running target of
// each program, then each program's second, and so on. So the least important kinds and the newest
// of many targets of one program are omitted first. Each target gets an equal number of sites.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/export/api/heap_outcomes.h"
#include "daemon/export/api/server_stats.h"
#include "daemon/export/api/service.h"
#include "daemon/export/metrics/gc_metrics.h"
#include "daemon/export/metrics/metric_families.h"
#include "daemon/export/metrics/site_metrics.h"
#include "daemon/export/metrics/top_sites.h"
#include "daemon/model/duration_counts.h"
#include "daemon/rules/rule_book.h"
#include "daemon/snapshot/answers/census_store.h"
#include "daemon/util/process_stats.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/version.h"
#include "prometheus/collectable.h"

namespace memprofd {

inline constexpr std::size_t kDefaultTopSites = 50;
inline constexpr std::size_t kDefaultTotalSites = 1000;

inline constexpr std::size_t kDefaultMaxSeries = 4000;
inline constexpr std::chrono::seconds kLastCounters{300};

// Number of sites with series of their own; up to twice as many have them (see top_sites.h).
struct SiteLimits {
  std::size_t each = kDefaultTopSites;     // target
  std::size_t total = kDefaultTotalSites;  // for all targets; later ones share the remainder
  std::size_t series = kDefaultMaxSeries;  // series of a scrape, of any kind
  bool histograms_by_pid = false;          // lifetimes and pauses by pid; otherwise by program
  // Time for which the counters of an ended target are exported.
  std::chrono::nanoseconds last_counters = kLastCounters;
};

// Kinds of series that may be held back, the most important first.
enum class Block {
  kIdentity,
  kCounters,
  kAssertions,
  kServers,
  kRuntime,
  kPauses,
  kPublished,
  kHeap,
  kSites,
  kLifetimes,
  kNativeSites,
};
inline constexpr std::array<std::string_view, 11> kBlockNames{
    "identity",  "counters", "assertions", "servers",   "runtime",     "pauses",
    "published", "heap",     "sites",      "lifetimes", "native_sites"};

// Any thread may collect; collections run one at a time.
class PrometheusExporter : public prometheus::Collectable {
 public:
  // service must outlive this.
  PrometheusExporter(
      ProfilerService& service, ProgramVersion version, SiteLimits limits = {},
      std::shared_ptr<const ServerStats> servers = std::make_shared<ServerStats>(),
      std::function<ProcessStats()> process = [] { return ProcessStats{}; },
      std::shared_ptr<const HeapOutcomes> heaps = std::make_shared<HeapOutcomes>(),
      std::shared_ptr<const CensusStore> censuses = std::make_shared<CensusStore>(),
      std::function<DurationCounts()> publications = [] { return DurationCounts{}; },
      std::shared_ptr<const RuleBook> rules = std::make_shared<RuleBook>());

  std::vector<prometheus::MetricFamily> Collect() const override;
  // The exposition in text format 0.0.4, UTF-8.
  std::string text() const;

 private:
  // State of a target between scrapes.
  struct ScrapeState {
    std::uint64_t attached_ns = 0;
    std::uint64_t start_time_ticks = 0;  // of the process
    // The pauses that its program's histogram contains already. The agent continues to count from
    // one attach to the next, and a forked child continues from its parent's count.
    std::optional<GcStats> counted;
    TopSites top_sites;
    TopSites top_native_sites;
    std::size_t sites = 0;  // its share of SiteLimits::total; 0 once it has ended
    GcStats gc;
    DropCounters drops;
    std::uint64_t refusals = 0;                        // published values could not be read
    std::map<SiteKey, LifetimeSums> lifetimes;         // as last added to those of the program
    std::chrono::steady_clock::time_point ended_at{};  // when a scrape first found that it had
                                                       // ended
  };
  // Sums over the targets of one program, ended ones included.
  struct ProgramTotals {
    GcPauses pauses{};
    bool has_pauses = false;
    std::map<SiteKey, LifetimeSums> lifetimes;
    std::set<SiteKey> sites;  // sites of this scrape; the others end
    bool is_used = false;     // in this scrape
  };
  // The state of one scrape.
  struct Scrape {
    std::vector<ProfileSnapshotPtr> targets;  // running targets, in order of their attach
    std::size_t running = 0;
    std::vector<std::unique_ptr<SiteTotals>> totals;  // totals of the running targets; null: not
                                                      // needed yet
    MetricFamilies out;
    std::array<std::uint64_t, kBlockNames.size()> held_back{};
  };

  ScrapeState& remember(const ProfileSnapshot& target) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t sites_for_one_more() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void retire(const ScrapeState& memory) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void retire_forgotten(const std::vector<ProfileSnapshotPtr>& targets) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void advance(const ProfileSnapshot& target) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string program_key(const TargetInfo& info) const;
  std::size_t room(const Scrape& scrape) const;
  void add(Block kind, MetricFamilies block, Scrape& scrape) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Add>
  void add_of_each(Block kind, std::size_t targets, Scrape& scrape, Add add_block) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_counters(const ProfileSnapshot& target, MetricFamilies& out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_published(Scrape& scrape) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns null if no snapshot was analysed since the attach.
  ShortCensusPtr last_census(const ProfileSnapshot& target) const;
  // Rules and assertions that were checked, by name: true if broken.
  std::map<std::string, bool> rules_of(const ProfileSnapshot& target) const;
  static const SiteTotals& totals_of(std::size_t target, Scrape& scrape);
  void collect_native_sites(Scrape& scrape) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_sites(Scrape& scrape) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_lifetimes(const ProfileSnapshot& target, const SiteSeriesMap& sites) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_of_programs(Block kind, Scrape& scrape) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void note_held_back(Scrape& scrape) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_drops(MetricFamilies& out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void collect_self(const std::vector<ProfileSnapshotPtr>& targets, MetricFamilies& out) const;

  ProfilerService& service_;
  const ProgramVersion version_;
  const SiteLimits limits_;
  const std::shared_ptr<const ServerStats> servers_;
  const std::function<ProcessStats()> process_;
  const std::shared_ptr<const HeapOutcomes> heaps_;
  const std::shared_ptr<const CensusStore> censuses_;
  const std::function<DurationCounts()> publications_;
  const std::shared_ptr<const RuleBook> rules_;

  mutable Mutex mutex_;
  mutable std::map<int, ScrapeState> targets_ ABSL_GUARDED_BY(mutex_);
  // Keyed by program_key().
  mutable std::map<std::string, ProgramTotals> programs_ ABSL_GUARDED_BY(mutex_);
  // Limit for each target.
  mutable std::size_t site_limit_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<std::size_t>::max();
  // True once the log has reported that series are held back.
  mutable bool has_held_back_ ABSL_GUARDED_BY(mutex_) = false;
  mutable DropCounters retired_drops_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
