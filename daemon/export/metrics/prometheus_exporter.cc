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
#include "daemon/export/metrics/reported_metrics.h"
#include "daemon/export/metrics/server_metrics.h"
#include "daemon/export/metrics/site_metrics.h"
#include "daemon/export/metrics/target_metrics.h"
#include "daemon/query/observe_mode_rules.h"
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

// What a busy collector may take of a scrape, for each target.
constexpr std::chrono::milliseconds kReportPatience{200};

// One of each pid, the latest attach.
std::vector<TargetSnapshotPtr> unique_targets(std::vector<TargetSnapshotPtr> targets) {
  std::map<int, TargetSnapshotPtr> latest;
  for (TargetSnapshotPtr& target : targets) {
    if (target == nullptr) continue;
    TargetSnapshotPtr& kept = latest[target->info.pid];
    if (kept == nullptr || kept->attached_ns <= target->attached_ns) kept = std::move(target);
  }
  std::vector<TargetSnapshotPtr> out;
  out.reserve(latest.size());
  for (auto& [pid, target] : latest) out.push_back(std::move(target));
  return out;
}

// A pid is one program's and no other's now; its name is what the next one after it shares.
MetricLabels labels_of_target(const TargetInfo& info) {
  return {{"pid", absl::StrCat(info.pid)}, {"program", info.exe.substr(info.exe.rfind('/') + 1)}};
}

void advance_drops(DropCounters& last, const DropCounters& now) {
  for (int i = 0; i < kDrops; ++i) {
    const Drop drop = static_cast<Drop>(i);
    last.set(drop, std::max(last.get(drop), now.get(drop)));
  }
}

}  // namespace

PrometheusExporter::PrometheusExporter(ProfilerService& service, ProgramVersion version,
                                       SiteLimits limits,
                                       std::shared_ptr<const ServerStats> servers,
                                       std::function<ProcessStats()> process,
                                       std::shared_ptr<const HeapOutcomes> heaps,
                                       std::shared_ptr<const CensusBook> censuses,
                                       std::function<DurationCounts()> publications)
    : service_(service),
      version_(std::move(version)),
      limits_(limits),
      servers_(std::move(servers)),
      process_(std::move(process)),
      heaps_(std::move(heaps)),
      censuses_(std::move(censuses)),
      publications_(std::move(publications)) {}

PrometheusExporter::TargetMemory& PrometheusExporter::remember(const TargetSnapshot& target) const {
  const auto known = targets_.find(target.info.pid);
  if (known != targets_.end() && known->second.attached_ns == target.attached_ns) {
    return known->second;
  }
  if (known != targets_.end()) {
    retire(known->second);
    targets_.erase(known);
  }
  const std::size_t sites = is_active(target.info.state) ? sites_for_one_more() : 0;
  return targets_
      .emplace(target.info.pid,
               TargetMemory{target.attached_ns, TopSites(sites), TopSites(sites), sites, {}, {}, 0})
      .first->second;
}

std::size_t PrometheusExporter::sites_for_one_more() const {
  std::size_t left = limits_.total;
  for (const auto& [pid, memory] : targets_) left -= std::min(left, memory.sites);
  return std::min(limits_.each, left);
}

void PrometheusExporter::retire(const TargetMemory& memory) const {
  for (int i = 0; i < kDrops; ++i) {
    const Drop drop = static_cast<Drop>(i);
    retired_drops_.add(drop, memory.drops.get(drop));
  }
}

void PrometheusExporter::retire_forgotten(const std::vector<TargetSnapshotPtr>& targets) const {
  std::set<int> pids;
  for (const TargetSnapshotPtr& target : targets) pids.insert(target->info.pid);
  for (auto it = targets_.begin(); it != targets_.end();) {
    if (!pids.contains(it->first)) {
      retire(it->second);
      it = targets_.erase(it);
    } else {
      ++it;
    }
  }
}

void PrometheusExporter::collect_target(const TargetSnapshot& target, MetricFamilies& out) const {
  TargetMemory& memory = remember(target);
  memory.gc = advance_gc_stats(memory.gc, target.gc);
  advance_drops(memory.drops, target.drops);
  add_target_metrics(target, out);
  if (target.info.mode == TargetMode::kAgent) {
    out.counter(kTargetHeapSnapshots, {},
                static_cast<double>(heaps_->taken_of(target.info.pid, target.attached_ns)));
  }
  if (!is_active(target.info.state)) {
    memory.sites = 0;
    return;
  }
  const bool follows_blocks = target.info.follows_blocks();
  add_gc_metrics(memory.gc, follows_blocks, out);
  if (target.memory) add_memory_metrics(*target.memory, out);
  const ShortCensusPtr census = censuses_->latest(static_cast<std::uint32_t>(target.info.pid),
                                                  static_cast<std::int64_t>(target.attached_ns));
  if (census != nullptr) add_heap_metrics(*census, out);
  const SiteTotals sites(target);
  add_site_metrics(memory.top_sites.update(sites.series()), follows_blocks, out);
  if (!follows_c_blocks(target.info)) return;
  add_c_site_metrics(memory.top_c_sites.update(sites.c_series()), out);
}

// A program that cannot be read now has no series in this scrape.
void PrometheusExporter::collect_reported(const TargetSnapshot& target, std::size_t& room,
                                          MetricFamilies& out) const {
  TargetMemory& memory = remember(target);
  if (!is_active(target.info.state)) return;
  auto answer = service_.read_values(
      target.info.pid,
      {.what = ValuesRequest::What::kKept, .in_a_hurry = true, .patience = kReportPatience},
      [] { return true; });
  if (!answer.ok() || (!answer->says_something && answer->values.empty())) return;
  memory.refusals += answer->why_no_report.empty() ? 0 : 1;
  out.counter(kRefusals, {}, static_cast<double>(memory.refusals));
  report_kept(answer->values, answer->report);
  add_reported_metrics(answer->report, tick_now().ns, room, out);
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

void PrometheusExporter::collect_self(MetricFamilies& out) const {
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
  out.counter(kProcessCpu, {}, self.cpu_seconds);
  out.gauge(kProcessResident, {}, static_cast<double>(self.resident_bytes));
  const ProcessStats process = process_();
  out.gauge(kProcessStart, {}, process.start_unix_seconds);
  out.gauge(kProcessFds, {}, static_cast<double>(process.open_descriptors));
  out.gauge(kProcessMaxFds, {}, static_cast<double>(process.max_descriptors));
}

std::vector<prometheus::MetricFamily> PrometheusExporter::Collect() const {
  const MutexLock lock(mutex_);
  const std::vector<TargetSnapshotPtr> targets = unique_targets(service_.lasting_snapshots());
  MetricFamilies out;
  collect_self(out);
  add_server_metrics(*servers_, out);
  retire_forgotten(targets);
  std::size_t room = kAllReportedNames;
  for (const TargetSnapshotPtr& target : targets) {
    out.set_common_labels(labels_of_target(target->info));
    collect_target(*target, out);
    collect_reported(*target, room, out);
  }
  out.set_common_labels({});
  collect_drops(out);
  return out.take();
}

std::string PrometheusExporter::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, Collect());
  return out.str();
}

}  // namespace memprofd
