// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/prometheus_exporter.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/metrics/gc_metrics.h"
#include "daemon/export/metrics/heap_metrics.h"
#include "daemon/export/metrics/memory_metrics.h"
#include "daemon/export/metrics/published_metrics.h"
#include "daemon/export/metrics/server_metrics.h"
#include "daemon/export/metrics/site_metrics.h"
#include "daemon/export/metrics/target_metrics.h"
#include "daemon/history/discoveries.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/snapshot/answers/assertion_check.h"
#include "daemon/util/base_name.h"
#include "daemon/util/log.h"
#include "daemon/values/kept_values.h"
#include "prometheus/text_serializer.h"

namespace memprofd {
namespace {

constexpr MetricName kBuildInfo{"memprofd_build_info", "Version of this memprofd; always 1."};
constexpr MetricName kCpu{
    "memprofd_cpu_seconds_total",
    "CPU time of memprofd, including its processes that read the memory of targets."};
constexpr MetricName kDaemonResident{"memprofd_resident_memory_bytes",
                                     "Resident memory of memprofd."};
constexpr MetricName kHistory{"memprofd_history_bytes",
                              "Memory used by the history of all targets."};
constexpr MetricName kTargetMemory{
    "memprofd_target_memory_bytes",
    "Memory used by everything else about targets: followed blocks, callstacks, names."};
constexpr MetricName kTargetMemoryMax{
    "memprofd_target_memory_max_bytes",
    "Upper limit of memprofd_target_memory_bytes, from --memory.max."};
constexpr MetricName kCpuMax{
    "memprofd_cpu_max_ratio",
    "Share of one processor that memprofd may use (--cpu.max); 0 without a limit."};
constexpr MetricName kState{"memprofd_state_bytes", "Size of the files of --state.directory."};
constexpr MetricName kStateErrors{
    "memprofd_state_write_errors_total",
    "Failed writes of a target to its state file, which then has older counts."};
constexpr MetricName kTargetHeapSnapshots{"memprofd_target_heap_snapshots_total",
                                          "Heap snapshots of the target since the attach."};
constexpr MetricName kAbandoned{"memprofd_abandoned_memory_servers",
                                "Memory servers of ended targets that hang in a file system that "
                                "does not answer; at 64 further programs are refused."};
constexpr MetricName kSnapshots{
    "memprofd_snapshot_duration_seconds",
    "Time to collect the numbers of all targets, the first step of each scrape and question."};
constexpr MetricName kEvents{"memprofd_events_total",
                             "Ring buffer records memprofd has consumed, all targets."};
constexpr MetricName kDropped{"memprofd_dropped_events_total",
                              "Events lost, by stage and reason, all targets."};
constexpr MetricName kGivenUp{"memprofd_given_up_events_total",
                              "Events omitted deliberately, by stage and reason, all targets."};

constexpr MetricName kDiscovered{
    "memprofd_discovered_programs",
    "Running OCaml programs, by whether they are profiled or why not."};
constexpr MetricName kEndedEarly{"memprofd_programs_ended_early_total",
                                 "Programs that match a rule and ended before they were profiled."};
constexpr MetricName kViolations{
    "memprofd_assertion_violations",
    "1 while the target breaks the rule (--rules, or an assertion of its code), 0 while it keeps "
    "it."};
constexpr MetricName kSeries{"memprofd_exported_series", "Series of this scrape."};
constexpr MetricName kSeriesMax{"memprofd_exported_series_max",
                                "Limit of series per scrape (--metrics.max-series)."};
constexpr MetricName kHeldBack{
    "memprofd_held_back_blocks",
    "Blocks of series that --metrics.max-series kept out of this scrape: one per target, or per "
    "program for histograms."};

constexpr MetricName kProcessCpu{"process_cpu_seconds_total",
                                 "CPU time of memprofd, under the name that all exporters use."};
constexpr MetricName kProcessResident{
    "process_resident_memory_bytes",
    "Resident memory of memprofd, under the name that all exporters use."};
constexpr MetricName kProcessStart{"process_start_time_seconds", "Start of memprofd, Unix time."};
constexpr MetricName kProcessFds{"process_open_fds", "Open file descriptors of memprofd."};
constexpr MetricName kProcessMaxFds{"process_max_fds", "Limit of open file descriptors."};

constexpr MetricName kRefusals{
    "memprofd_reported_refusals_total",
    "Scrapes in which the program's published values could not be read."};

// Number of series of the three metrics above.
constexpr std::size_t kSeriesOfLimits = 2 + kBlockNames.size();

// Time per target in a scrape of a program with a busy collector.
constexpr std::chrono::milliseconds kReportPatience{200};

// One target per pid, from the latest attach.
std::vector<ProfileSnapshotPtr> unique_targets(std::vector<ProfileSnapshotPtr> targets) {
  std::map<int, ProfileSnapshotPtr> latest;
  for (ProfileSnapshotPtr& target : targets) {
    if (target == nullptr) continue;
    ProfileSnapshotPtr& kept = latest[target->info.pid];
    if (kept == nullptr || kept->attached_ns <= target->attached_ns) kept = std::move(target);
  }
  std::vector<ProfileSnapshotPtr> out;
  out.reserve(latest.size());
  for (auto& [pid, target] : latest) out.push_back(std::move(target));
  return out;
}

std::string program_of(const TargetInfo& info) { return std::string(base_name(info.exe)); }

// A pid belongs to one program now; the program name may be shared with later processes.
MetricLabels labels_of_target(const TargetInfo& info) {
  return {{"pid", absl::StrCat(info.pid)}, {"program", program_of(info)}};
}

// Running targets before ended ones; among these, the oldest of each program first, then the second
// of each.
void put_in_order(std::vector<ProfileSnapshotPtr>& targets) {
  std::ranges::stable_sort(targets, {}, &ProfileSnapshot::attached_ns);
  std::map<std::string, std::size_t> of_program;
  std::map<const ProfileSnapshot*, std::pair<bool, std::size_t>> order;
  for (const ProfileSnapshotPtr& target : targets) {
    const bool runs = is_active(target->info.state);
    order[target.get()] = {!runs, runs ? of_program[program_of(target->info)]++ : 0};
  }
  std::ranges::stable_sort(targets, {},
                           [&](const ProfileSnapshotPtr& target) { return order[target.get()]; });
}

void advance_drops(DropCounters& last, const DropCounters& now) {
  for (int i = 0; i < kDrops; ++i) {
    const Drop drop = static_cast<Drop>(i);
    last.set(drop, std::max(last.get(drop), now.get(drop)));
  }
}

}  // namespace

PrometheusExporter::PrometheusExporter(
    ProfilerService& service, ProgramVersion version, SiteLimits limits,
    std::shared_ptr<const ServerStats> servers, std::function<ProcessStats()> process,
    std::shared_ptr<const HeapOutcomes> heaps, std::shared_ptr<const CensusStore> censuses,
    std::function<DurationCounts()> publications, std::shared_ptr<const RuleBook> rules)
    : service_(service),
      version_(std::move(version)),
      limits_(limits),
      servers_(std::move(servers)),
      process_(std::move(process)),
      heaps_(std::move(heaps)),
      censuses_(std::move(censuses)),
      publications_(std::move(publications)),
      rules_(std::move(rules)) {}

PrometheusExporter::ScrapeState& PrometheusExporter::remember(const ProfileSnapshot& target) const {
  const auto known = targets_.find(target.info.pid);
  if (known != targets_.end() && known->second.attached_ns == target.attached_ns) {
    return known->second;
  }
  std::optional<GcStats> counted;
  if (known != targets_.end()) {
    if (known->second.start_time_ticks == target.info.program.start_time_ticks) {
      counted = known->second.counted;
    }
    retire(known->second);
    targets_.erase(known);
  }
  const std::size_t sites = is_active(target.info.state) ? sites_for_one_more() : 0;
  ScrapeState memory{.attached_ns = target.attached_ns,
                     .start_time_ticks = target.info.program.start_time_ticks,
                     .counted = std::move(counted),
                     .top_sites = TopSites(sites),
                     .top_native_sites = TopSites(sites),
                     .sites = sites};
  return targets_.emplace(target.info.pid, std::move(memory)).first->second;
}

std::size_t PrometheusExporter::sites_for_one_more() const {
  std::size_t left = limits_.total;
  for (const auto& [pid, memory] : targets_) left -= std::min(left, memory.sites);
  return std::min(limits_.each, left);
}

void PrometheusExporter::retire(const ScrapeState& memory) const {
  for (int i = 0; i < kDrops; ++i) {
    const Drop drop = static_cast<Drop>(i);
    retired_drops_.add(drop, memory.drops.get(drop));
  }
}

void PrometheusExporter::retire_forgotten(const std::vector<ProfileSnapshotPtr>& targets) const {
  std::set<int> pids;
  for (const ProfileSnapshotPtr& target : targets) pids.insert(target->info.pid);
  for (auto it = targets_.begin(); it != targets_.end();) {
    if (!pids.contains(it->first)) {
      retire(it->second);
      it = targets_.erase(it);
    } else {
      ++it;
    }
  }
}

// This state advances with each scrape, whether or not the series fit.
void PrometheusExporter::advance(const ProfileSnapshot& target) const {
  ScrapeState& memory = remember(target);
  ProgramTotals& program = programs_[program_key(target.info)];
  program.is_used = true;
  memory.gc = advance_gc_stats(memory.gc, target.gc);
  if (target.info.follows_blocks() && memory.gc.valid) {
    if (!memory.counted) memory.counted = target.info.forked_from == 0 ? GcStats() : memory.gc;
    add_growth(*memory.counted, memory.gc, program.pauses);
    memory.counted = memory.gc;
    program.has_pauses = true;
  }
  advance_drops(memory.drops, target.drops);
  if (is_active(target.info.state)) return;
  memory.sites = 0;
  memory.lifetimes.clear();
  if (memory.ended_at == std::chrono::steady_clock::time_point()) {
    memory.ended_at = std::chrono::steady_clock::now();
  }
}

std::string PrometheusExporter::program_key(const TargetInfo& info) const {
  return limits_.histograms_by_pid ? absl::StrCat(info.pid, " ", program_of(info))
                                   : program_of(info);
}

std::size_t PrometheusExporter::room(const Scrape& scrape) const {
  return limits_.series - std::min(limits_.series, scrape.out.series() + kSeriesOfLimits);
}

void PrometheusExporter::add(Block kind, MetricFamilies block, Scrape& scrape) const {
  if (block.series() <= room(scrape)) {
    scrape.out.append(std::move(block));
  } else {
    ++scrape.held_back[static_cast<std::size_t>(kind)];
  }
}

// Adds a block for each of the first targets.
template <typename Add>
void PrometheusExporter::add_of_each(Block kind, std::size_t targets, Scrape& scrape,
                                     Add add_block) const {
  for (std::size_t i = 0; i < targets; ++i) {
    MetricFamilies block;
    block.set_common_labels(labels_of_target(scrape.targets[i]->info));
    add_block(*scrape.targets[i], block);
    add(kind, std::move(block), scrape);
  }
}

void PrometheusExporter::collect_counters(const ProfileSnapshot& target,
                                          MetricFamilies& out) const {
  const ScrapeState& memory = remember(target);
  if (!is_active(target.info.state) &&
      std::chrono::steady_clock::now() - memory.ended_at >= limits_.last_counters) {
    return;
  }
  add_target_metrics(target, out);
  if (target.info.mode == TargetMode::kAgent) {
    out.counter(kTargetHeapSnapshots, {},
                static_cast<double>(heaps_->taken_of(target.info.pid, target.attached_ns)));
  }
}

// The block of a site contains its lifetimes if the process is the only one of its program.
void PrometheusExporter::collect_sites(Scrape& scrape) const {
  if (scrape.running == 0) return;
  const bool native = std::ranges::any_of(scrape.targets, [](const ProfileSnapshotPtr& target) {
    return follows_native_blocks(target->info);
  });
  const std::size_t of_site =
      kSeriesOfSite + kLifetimeBounds + 3 + (native ? kSeriesOfNativeSite : 0);
  const std::size_t fair = room(scrape) / of_site / scrape.running;
  const std::size_t limit = std::max<std::size_t>(fair, 2) - 1;  // besides `other`
  // The limit does not follow every change of the number of programs; otherwise sites would come
  // and go with it.
  if (limit < site_limit_ || limit / 2 >= site_limit_) site_limit_ = limit;
  for (std::size_t i = 0; i < scrape.running; ++i) {
    // Avoids sums over all callstacks of a target that would not be shown.
    if (room(scrape) < 2 * kSeriesOfSite) {
      ++scrape.held_back[static_cast<std::size_t>(Block::kSites)];
      continue;
    }
    const ProfileSnapshot& target = *scrape.targets[i];
    MetricFamilies block;
    block.set_common_labels(labels_of_target(target.info));
    ScrapeState& memory = remember(target);
    memory.top_sites.set_limit(site_limit_);
    const SiteSeriesMap sites = memory.top_sites.update(totals_of(i, scrape).series());
    if (!follows_native_blocks(target.info)) scrape.totals[i].reset();
    const bool follows_blocks = target.info.follows_blocks();
    add_site_metrics(sites, follows_blocks, block);
    if (follows_blocks && block.series() <= room(scrape)) add_lifetimes(target, sites);
    add(Block::kSites, std::move(block), scrape);
  }
}

// A site that has just got a series was counted in `other` before, except in the first scrape and
// if it is the first one of its program.
void PrometheusExporter::add_lifetimes(const ProfileSnapshot& target,
                                       const SiteSeriesMap& sites) const {
  ScrapeState& memory = remember(target);
  ProgramTotals& program = programs_[program_key(target.info)];
  const bool is_first = memory.lifetimes.empty();
  std::map<SiteKey, LifetimeSums> now;
  for (const auto& [key, series] : sites) {
    const LifetimeSums& lifetimes = now[key] = series.counts.lifetimes;
    program.sites.insert(key);
    const auto [sum, is_new] = program.lifetimes.try_emplace(key);
    const auto before = memory.lifetimes.find(key);
    if (before != memory.lifetimes.end()) {
      sum->second += lifetimes.growth_since(before->second);
    } else if (is_first || is_new) {
      sum->second += lifetimes;
    }
  }
  memory.lifetimes = std::move(now);
}

// Histograms per program, or per target if they are requested by pid.
void PrometheusExporter::collect_of_programs(Block kind, Scrape& scrape) const {
  std::set<std::string> shown;
  for (const ProfileSnapshotPtr& target : scrape.targets) {
    const std::string key = program_key(target->info);
    if (!shown.insert(key).second) continue;
    ProgramTotals& program = programs_[key];
    MetricFamilies block;
    if (limits_.histograms_by_pid) {
      if (!is_active(target->info.state)) continue;
      block.set_common_labels(labels_of_target(target->info));
    } else {
      block.set_common_labels({{"program", program_of(target->info)}});
    }
    if (kind == Block::kPauses) {
      if (program.has_pauses) add_pause_metrics(program.pauses, block);
    } else {
      std::erase_if(program.lifetimes,
                    [&](const auto& site) { return !program.sites.contains(site.first); });
      program.sites.clear();
      add_lifetime_metrics(program.lifetimes, block);
    }
    add(kind, std::move(block), scrape);
  }
}

// A program that cannot be read now has no series in this scrape.
void PrometheusExporter::collect_published(Scrape& scrape) const {
  std::map<int, ValuesAnswer> answers;
  for (PublishedValues& one : service_.read_published(
           {.what = ValuesRequest::What::kKept, .in_a_hurry = true, .patience = kReportPatience})) {
    if (one.answer.ok()) answers.emplace(one.pid, *std::move(one.answer));
  }
  std::size_t names = kAllReportedNames;
  add_of_each(Block::kPublished, scrape.running, scrape,
              [&](const ProfileSnapshot& target, MetricFamilies& out) {
                const auto found = answers.find(target.info.pid);
                if (found == answers.end()) return;
                ValuesAnswer& answer = found->second;
                if (!answer.publishes && answer.values.empty()) return;
                ScrapeState& memory = remember(target);
                memory.refusals += answer.why_no_report.empty() ? 0 : 1;
                out.counter(kRefusals, {}, static_cast<double>(memory.refusals));
                add_kept_values(answer.values, answer.report);
                add_published_metrics(answer.report, tick_now().ns, names, out);
              });
}

// Groups the rows once for all metrics of a scrape.
const SiteTotals& PrometheusExporter::totals_of(std::size_t target, Scrape& scrape) {
  std::unique_ptr<SiteTotals>& totals = scrape.totals[target];
  if (totals == nullptr) totals = std::make_unique<SiteTotals>(*scrape.targets[target]);
  return *totals;
}

void PrometheusExporter::collect_native_sites(Scrape& scrape) const {
  for (std::size_t i = 0; i < scrape.running; ++i) {
    const ProfileSnapshot& target = *scrape.targets[i];
    if (!follows_native_blocks(target.info)) continue;
    MetricFamilies block;
    block.set_common_labels(labels_of_target(target.info));
    TopSites& top = remember(target).top_native_sites;
    top.set_limit(site_limit_);
    add_native_site_metrics(top.update(totals_of(i, scrape).native_series()), block);
    add(Block::kNativeSites, std::move(block), scrape);
  }
}

void PrometheusExporter::collect_drops(MetricFamilies& out) const {
  for (int i = 0; i < kDrops; ++i) {
    const Drop drop = static_cast<Drop>(i);
    std::uint64_t n = retired_drops_.get(drop);
    for (const auto& [pid, memory] : targets_) n += memory.drops.get(drop);
    const DropName name = drop_name(drop);
    out.counter(name.given_up ? kGivenUp : kDropped,
                {{"stage", std::string(name.stage)}, {"reason", std::string(name.reason)}},
                static_cast<double>(n));
  }
}

void PrometheusExporter::collect_self(const std::vector<ProfileSnapshotPtr>& targets,
                                      MetricFamilies& out) const {
  const SelfStats self = service_.self_stats();
  out.gauge(kBuildInfo, {{"version", version_.version}, {"revision", version_.revision}}, 1);
  out.counter(kCpu, {}, self.cpu_seconds);
  out.gauge(kDaemonResident, {}, static_cast<double>(self.resident_bytes));
  out.gauge(kHistory, {}, static_cast<double>(self.history_bytes));
  out.gauge(kTargetMemory, {}, static_cast<double>(self.target_bytes));
  out.gauge(kTargetMemoryMax, {}, static_cast<double>(self.target_bytes_max));
  out.gauge(kCpuMax, {}, self.cpu_max);
  out.gauge(kState, {}, static_cast<double>(self.state_bytes));
  out.counter(kStateErrors, {}, static_cast<double>(self.state_write_errors));
  add_heap_outcomes(*heaps_, out);
  out.gauge(kAbandoned, {}, static_cast<double>(self.abandoned_memory_servers));
  out.durations(kSnapshots, {}, publications_());
  out.counter(kEvents, {}, static_cast<double>(self.events));
  const Discoveries discovered = with_targets(service_.discovered(), targets);
  for (std::size_t i = 0; i < discovered.counts.size(); ++i) {
    out.gauge(kDiscovered, {{"outcome", std::string(kDiscoveryNames[i])}},
              static_cast<double>(discovered.counts[i]));
  }
  out.counter(kEndedEarly, {}, static_cast<double>(discovered.ended_early));
  out.counter(kProcessCpu, {}, self.cpu_seconds);
  out.gauge(kProcessResident, {}, static_cast<double>(self.resident_bytes));
  const ProcessStats process = process_();
  out.gauge(kProcessStart, {}, process.start_unix_seconds);
  out.gauge(kProcessFds, {}, static_cast<double>(process.open_descriptors));
  out.gauge(kProcessMaxFds, {}, static_cast<double>(process.max_descriptors));
}

ShortCensusPtr PrometheusExporter::last_census(const ProfileSnapshot& target) const {
  return censuses_->latest(static_cast<std::uint32_t>(target.info.pid),
                           static_cast<std::int64_t>(target.attached_ns));
}

std::map<std::string, bool> PrometheusExporter::rules_of(const ProfileSnapshot& target) const {
  std::map<std::string, bool> rules;
  for (const auto& [rule, state] : rules_->of({target.info.pid, target.attached_ns})) {
    if (state.verdict == RuleVerdict::kUnknown) continue;
    rules[rule] = state.verdict == RuleVerdict::kBroken;
  }
  const ShortCensusPtr census = last_census(target);
  if (census == nullptr) return rules;
  for (const AssertionOutcome& outcome : census->assertions) {
    if (outcome.verdict == AssertionVerdict::kNotChecked) continue;
    rules[assertion_text(outcome.assertion)] |= outcome.verdict == AssertionVerdict::kViolated;
  }
  return rules;
}

std::vector<prometheus::MetricFamily> PrometheusExporter::Collect() const {
  const MutexLock lock(mutex_);
  Scrape scrape;
  scrape.targets = unique_targets(service_.lasting_snapshots());
  retire_forgotten(scrape.targets);
  for (const ProfileSnapshotPtr& target : scrape.targets) advance(*target);
  collect_self(scrape.targets, scrape.out);
  collect_drops(scrape.out);
  put_in_order(scrape.targets);
  scrape.running = static_cast<std::size_t>(std::ranges::count_if(
      scrape.targets, [](const ProfileSnapshotPtr& t) { return is_active(t->info.state); }));
  scrape.totals.resize(scrape.running);
  const std::size_t all = scrape.targets.size(), running = scrape.running;

  add_of_each(
      Block::kIdentity, all, scrape,
      [](const ProfileSnapshot& target, MetricFamilies& out) { add_target_identity(target, out); });
  add_of_each(
      Block::kCounters, all, scrape,
      [&](const ProfileSnapshot& target, MetricFamilies& out) { collect_counters(target, out); });
  add_of_each(Block::kAssertions, running, scrape,
              [&](const ProfileSnapshot& target, MetricFamilies& out) {
                for (const auto& [rule, is_broken] : rules_of(target)) {
                  out.gauge(kViolations, {{"rule", rule}}, is_broken ? 1 : 0);
                }
              });
  MetricFamilies servers;
  add_server_metrics(*servers_, servers);
  add(Block::kServers, std::move(servers), scrape);
  add_of_each(Block::kRuntime, running, scrape,
              [&](const ProfileSnapshot& target, MetricFamilies& out) {
                add_gc_metrics(remember(target).gc, out);
                if (target.memory) add_memory_metrics(*target.memory, out);
              });
  collect_of_programs(Block::kPauses, scrape);
  collect_published(scrape);
  add_of_each(Block::kHeap, running, scrape,
              [&](const ProfileSnapshot& target, MetricFamilies& out) {
                const ShortCensusPtr census = last_census(target);
                if (census != nullptr) add_heap_metrics(*census, out);
              });
  collect_sites(scrape);
  collect_of_programs(Block::kLifetimes, scrape);
  collect_native_sites(scrape);
  for (auto it = programs_.begin(); it != programs_.end();) {
    const bool is_used = std::exchange(it->second.is_used, false);
    it = is_used ? std::next(it) : programs_.erase(it);
  }
  note_held_back(scrape);
  return scrape.out.take();
}

void PrometheusExporter::note_held_back(Scrape& scrape) const {
  scrape.out.gauge(kSeries, {}, static_cast<double>(scrape.out.series() + kSeriesOfLimits));
  scrape.out.gauge(kSeriesMax, {}, static_cast<double>(limits_.series));
  for (std::size_t i = 0; i < kBlockNames.size(); ++i) {
    scrape.out.gauge(kHeldBack, {{"kind", std::string(kBlockNames[i])}},
                     static_cast<double>(scrape.held_back[i]));
  }
  const bool held_back = std::ranges::any_of(scrape.held_back, [](auto n) { return n != 0; });
  if (held_back && !std::exchange(has_held_back_, true)) {
    log_warning(
        "/metrics holds back series beyond {}: memprofd_held_back_blocks counts them; raise "
        "--metrics.max-series to have them",
        limits_.series);
  }
}

std::string PrometheusExporter::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, Collect());
  return out.str();
}

}  // namespace memprofd
