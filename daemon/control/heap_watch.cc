// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/heap_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent-lib/include/memprof_snapshot_abi.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/heap_requests.h"
#include "daemon/history/snapshot.h"
#include "daemon/util/guard.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// Interval at which programs are checked for one that waits for its snapshot.
constexpr std::chrono::milliseconds kPointInterval{100};

HeapMoment moment_of(const ProfileSnapshot& target) {
  HeapMoment moment{.live_bytes = target.counters.live.bytes()};
  if (target.gc.valid) moment.major_collections = target.gc.major_collections;
  const std::time_t now = std::time(nullptr);
  ::localtime_r(&now, &moment.time);
  return moment;
}

// The user who is charged for snapshots of the process; empty if root owns it or it has exited.
std::string user_of(int pid) {
  struct stat process {};
  const bool is_there = ::stat(ProcFs().path(pid, "").c_str(), &process) == 0;
  return is_there && process.st_uid != 0 ? absl::StrCat("user ", process.st_uid) : "";
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
      thread_({"heap-watch", "to take snapshots by rules"}, [this] { return run(); }) {}

HeapWatch::~HeapWatch() {
  thread_.stop();
  for (const auto& taking : takings_) taking->thread.join();
}

std::chrono::nanoseconds HeapWatch::run() {
  collect();
  if (Clock::now() >= next_inspection_) {
    next_inspection_ = Clock::now() + options_.interval;
    check();
  }
  inspect_points();
  return point_kinds_ == 0 && takings_.empty() ? options_.interval
                                               : std::min(options_.interval, kPointInterval);
}

// The rules of a target that is not sampled restart when sampling resumes.
void HeapWatch::check() {
  std::map<int, Watched> still_there;
  std::set<Process> known;
  for (const ProfileSnapshotPtr& target : service_.snapshots()) {
    const TargetInfo& info = target->info;
    const Process process(info.pid, info.program.start_time_ticks);
    known.insert(process);
    if (info.state != TargetState::kSampling || info.mode != TargetMode::kAgent) continue;
    Watched& watched = still_there[info.pid];
    if (const auto before = watched_.find(info.pid);
        before != watched_.end() && before->second.attached_ns == target->attached_ns) {
      watched = std::move(before->second);
    } else {
      watched.process = process;
      watched.attached_ns = target->attached_ns;
      watched.comm = info.comm;
      watched.user = user_of(info.pid);
      for (const HeapRule& rule : options_.rules) watched.rules.emplace_back(rule);
    }
    keep_points(info.pid, watched);
    inspect(*target, watched);
  }
  watched_ = std::move(still_there);
  std::erase_if(ended_, [&](const Process& process) { return !known.contains(process); });
}

// One snapshot serves all conditions that are due, and all broken rules.
void HeapWatch::inspect(const ProfileSnapshot& target, Watched& watched) {
  const HeapMoment moment = moment_of(target);
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < watched.rules.size(); ++i) {
    if (watched.rules[i].is_due(moment)) due.push_back(i);
  }
  const int pid = target.info.pid;
  const auto broken = options_.book->wants_snapshot({pid, target.attached_ns});
  if (due.empty() && !broken) return;
  if (Clock::now() < watched.not_before || is_taking(pid)) return;
  const std::string why =
      due.empty() ? absl::StrCat("rule ", printable(*broken)) : options_.rules[due.front()].text;
  Taking* const taking = begin(pid, watched, why, std::nullopt);
  if (taking != nullptr) taking->due = std::move(due);
}

// Renews the request that the program waits at its points. The first request fails while another
// snapshot is taken; later checks try again.
void HeapWatch::keep_points(int pid, Watched& watched) const {
  if (point_kinds_ == 0) return;
  if (!watched.points) {
    if (auto points = options_.points(pid); points.ok()) watched.points = *std::move(points);
  }
  if (watched.points) (void)watched.points->want(point_kinds_);
}

void HeapWatch::inspect_points() {
  for (auto& [pid, watched] : watched_) inspect_point(pid, watched);
}

void HeapWatch::inspect_point(int pid, Watched& watched) {
  const auto point = watched.points ? watched.points->waiting() : std::nullopt;
  if (point && (!watched.point || watched.point->number != point->number)) {
    watched.waits_since = Clock::now();
  }
  watched.point = point;
  if (!point || is_taking(pid)) return;
  const std::string why = point->at_exit ? "end" : absl::StrCat("point ", printable(point->name));
  if (point->at_exit && ended_.contains(watched.process)) {
    return refuse_point(pid, watched, why,
                        absl::FailedPreconditionError("it has announced its end before"));
  }
  if (!point->at_exit && Clock::now() < watched.not_before) {
    return refuse_point(
        pid, watched, why,
        absl::UnavailableError("another one was taken within --snapshot.interval; shorten the "
                               "interval, or use fewer snapshot points"));
  }
  Taking* const taking = begin(pid, watched, why, kPointPatience);
  if (taking != nullptr) {
    if (point->at_exit) ended_.insert(watched.process);
    taking->points = watched.points;
    taking->point = point;
  } else if (Clock::now() - watched.waits_since > kPointPatience) {
    refuse_point(
        pid, watched, why,
        absl::ResourceExhaustedError("it has waited too long for snapshots of other programs"));
  }
}

void HeapWatch::refuse_point(int pid, Watched& watched, const std::string& why,
                             const absl::Status& refused) {
  watched.points->answer(*watched.point, false);
  options_.count(refused);
  const ScopedUser asker(watched.user);  // the user to whom the log lines are charged
  audit(pid, absl::StrCat("snapshot (", why, ")"), "memprofd itself", refused);
}

HeapWatch::Taking* HeapWatch::begin(int pid, Watched& watched, const std::string& why,
                                    std::optional<Clock::duration> patience) {
  auto slot = slots_.take(watched.user);
  if (!slot.ok()) return nullptr;
  takings_.push_back(std::make_unique<Taking>(pid, watched.attached_ns, *std::move(slot)));
  Taking* const taking = takings_.back().get();
  auto thread = start_thread("to take a snapshot", [this, pid, why, patience, comm = watched.comm,
                                                    user = watched.user, taking] {
    const ScopedUser asker(user);
    std::string done;
    taking->outcome = absl::InternalError("memprofd failed to take it; see its log");
    guarded("to take a snapshot", [&] {
      taking->outcome = take(pid, comm, patience, done);
      audit(pid, absl::StrCat("snapshot (", why, ")"), "memprofd itself", taking->outcome, done);
    });
    taking->has_ended = true;
  });
  if (!thread.ok()) {
    takings_.pop_back();
    return nullptr;
  }
  taking->thread = *std::move(thread);
  return taking;
}

bool HeapWatch::is_taking(int pid) const {
  return std::ranges::any_of(takings_, [pid](const auto& taking) { return taking->pid == pid; });
}

void HeapWatch::collect() {
  for (auto it = takings_.begin(); it != takings_.end();) {
    Taking& taking = **it;
    if (!taking.has_ended) {
      ++it;
      continue;
    }
    taking.thread.join();
    if (taking.point) taking.points->answer(*taking.point, taking.outcome.ok());
    if (taking.outcome.ok()) options_.book->snapshot_taken({taking.pid, taking.attached_ns});
    const auto found = watched_.find(taking.pid);
    if (found != watched_.end() && found->second.attached_ns == taking.attached_ns) {
      found->second.not_before =
          Clock::now() +
          std::chrono::round<Clock::duration>(std::chrono::duration<double>(options_.rest_seconds));
      for (const std::size_t rule : taking.due) {
        if (taking.outcome.ok()) found->second.rules[rule].taken();
      }
    }
    it = takings_.erase(it);
  }
}

// Runs on the thread that takes the snapshot.
absl::Status HeapWatch::take(int pid, const std::string& comm,
                             std::optional<Clock::duration> patience, std::string& done) {
  auto file = files_.create(comm, pid, std::time(nullptr));
  if (!file.ok()) {
    options_.count(file.status());
    return file.status();
  }
  HeapSummary summary;
  const auto until = patience ? Clock::now() + *patience : Clock::time_point::max();
  bool has_come = false;
  const auto take_into = [&](const HeapClient& file_of) -> absl::Status {
    const HeapClient client{.take =
                                [&](std::string_view bytes) {
                                  has_come = true;
                                  return file_of.take(bytes);
                                },
                            .waits = file_of.waits};
    ASSIGN_OR_RETURN(
        summary, service_.take_heap(
                     {.process = pid, .max_pause_seconds = options_.max_pause_seconds}, client));
    return absl::OkStatus();
  };
  const auto waits = [&] { return thread_.is_running() && (has_come || Clock::now() < until); };
  const absl::Status filled = file->fill(waits, take_into);
  if (!filled.ok() && !has_come && Clock::now() >= until) {
    return absl::DeadlineExceededError(
        "it announced that it waits for its snapshot, but never reached the point where it is "
        "copied");
  }
  RETURN_IF_ERROR(filled);
  done = absl::StrCat(cost_of(to_proto(summary)), ", in ", file->path());
  return absl::OkStatus();
}

}  // namespace memprofd
