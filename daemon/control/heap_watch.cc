// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/heap_watch.h"

#include <pthread.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent-lib/include/memprof_snapshot_abi.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/control_service.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// A program that waits for its snapshot is found so soon.
constexpr std::chrono::milliseconds kPointInterval{100};

HeapMoment moment_of(const TargetSnapshot& target) {
  HeapMoment moment{.live_bytes = target.counters.live.bytes()};
  if (target.gc.valid) moment.major_collections = target.gc.major_collections;
  const std::time_t now = std::time(nullptr);
  ::localtime_r(&now, &moment.time);
  return moment;
}

std::uint32_t point_kinds_of(const std::vector<HeapRule>& rules) {
  std::uint32_t kinds = 0;
  for (const HeapRule& rule : rules) {
    if (rule.kind == HeapRule::Kind::kPoint) kinds |= MEMPROF_POINT_OF_PROGRAM;
    if (rule.kind == HeapRule::Kind::kEnd) kinds |= MEMPROF_POINT_EXIT;
  }
  return kinds;
}

}  // namespace

HeapWatch::HeapWatch(ProfilerService& service, HeapWatchOptions options)
    : service_(service),
      options_(std::move(options)),
      files_(options_.files),
      point_kinds_(point_kinds_of(options_.rules)),
      thread_([this] { run(); }) {}

HeapWatch::~HeapWatch() {
  stop_.stop();
  thread_.join();
}

void HeapWatch::run() {
  ::pthread_setname_np(::pthread_self(), "heap-watch");
  const auto pause =
      point_kinds_ == 0 ? options_.interval : std::min(options_.interval, kPointInterval);
  Clock::time_point next_look;
  do {
    if (Clock::now() >= next_look) {
      look();
      next_look = Clock::now() + options_.interval;
    }
    look_at_points();
  } while (stop_.wait(pause));
}

// What is not sampled now is begun anew when it is.
void HeapWatch::look() {
  std::map<int, Watched> still_there;
  for (const TargetSnapshotPtr& target : service_.snapshots()) {
    const TargetInfo& info = target->info;
    if (info.state != TargetState::kSampling || info.mode != TargetMode::kAgent) continue;
    Watched& watched = still_there[info.pid];
    if (const auto known = watched_.find(info.pid);
        known != watched_.end() && known->second.attached_ns == target->attached_ns) {
      watched = std::move(known->second);
    } else {
      watched.attached_ns = target->attached_ns;
      watched.comm = info.comm;
      for (const HeapRule& rule : options_.rules) watched.rules.emplace_back(rule);
    }
    keep_points(info.pid, watched);
    look_at(*target, watched);
  }
  watched_ = std::move(still_there);
}

// One snapshot serves all rules that it is due by.
void HeapWatch::look_at(const TargetSnapshot& target, Watched& watched) {
  const HeapMoment moment = moment_of(target);
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < watched.rules.size(); ++i) {
    if (watched.rules[i].is_due(moment)) due.push_back(i);
  }
  if (due.empty() || Clock::now() < watched.not_before) return;
  if (!try_to_take(target.info.pid, watched, options_.rules[due.front()].text).ok()) return;
  for (const std::size_t i : due) watched.rules[i].taken();
}

// They cannot be had while somebody else takes a snapshot.
void HeapWatch::keep_points(int pid, Watched& watched) const {
  if (point_kinds_ == 0) return;
  if (!watched.points) {
    if (auto points = options_.points(pid); points.ok()) watched.points = *std::move(points);
  }
  if (watched.points) (void)watched.points->want(point_kinds_);
}

void HeapWatch::look_at_points() {
  for (auto& [pid, watched] : watched_) {
    const auto point = watched.points ? watched.points->waiting() : std::nullopt;
    if (point) watched.points->answer(*point, take_at(*point, pid, watched).ok());
  }
}

absl::Status HeapWatch::take_at(const WaitingPoint& point, int pid, Watched& watched) {
  const std::string why = point.at_exit ? "end" : absl::StrCat("point ", printable(point.name));
  if (point.at_exit || Clock::now() >= watched.not_before) return try_to_take(pid, watched, why);
  const absl::Status refused = absl::UnavailableError(
      "another one was taken within --snapshot.interval; take one more often, or have fewer "
      "points");
  options_.count(refused);
  audit(pid, absl::StrCat("snapshot (", why, ")"), "memprofd itself", refused);
  return refused;
}

absl::Status HeapWatch::try_to_take(int pid, Watched& watched, const std::string& why) {
  std::string done;
  absl::Status outcome = take(pid, watched.comm, done);
  watched.not_before = Clock::now() + std::chrono::round<Clock::duration>(
                                          std::chrono::duration<double>(options_.rest_seconds));
  audit(pid, absl::StrCat("snapshot (", why, ")"), "memprofd itself", outcome, done);
  return outcome;
}

absl::Status HeapWatch::take(int pid, const std::string& comm, std::string& done) {
  auto file = files_.create(comm, pid, std::time(nullptr));
  if (!file.ok()) {
    options_.count(file.status());
    return file.status();
  }
  HeapSummary summary;
  const auto take_into = [&](const HeapClient& client) -> absl::Status {
    ASSIGN_OR_RETURN(
        summary, service_.take_heap(
                     {.process = pid, .max_pause_seconds = options_.max_pause_seconds}, client));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(file->fill([this] { return stop_.wait({}); }, take_into));
  done = absl::StrCat(cost_of(to_proto(summary)), ", in ", file->path());
  return absl::OkStatus();
}

}  // namespace memprofd
