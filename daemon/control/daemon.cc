// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/daemon.h"

#include <pthread.h>

#include <algorithm>
#include <future>

#include "absl/strings/str_cat.h"
#include "daemon/control/self_stats.h"
#include "daemon/doctor/doctor.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTickWaiting{10};
constexpr milliseconds kTickSteady{200};
// How long an attach request keeps its caller until it answers "waiting".
constexpr milliseconds kAttachPatience{1500};
// How long it waits at most, whatever the control thread is at.
constexpr auto kAttachDeadline = kLookBudget + ControlQueue::kPatience;
// How long the agent may take to stop at its next callback.
constexpr milliseconds kStopPatience{300};
constexpr milliseconds kRatePatience{500};
constexpr milliseconds kPollInterval{1};
constexpr milliseconds kSnapshotTimeout{2000};
// Numbers that are so old are told to be: longer than a publication of many targets takes.
constexpr milliseconds kStaleAge{5000};
constexpr std::size_t kMaxEnded = 100;

// Until condition() or the deadline; true when the condition came.
template <typename Condition>
bool wait_for(milliseconds patience, Condition condition) {
  const auto deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

absl::Status took_too_long(int pid) {
  return absl::DeadlineExceededError(absl::StrCat(
      "pid ", pid, ": to look at the program took longer than ", kLookBudget.count(),
      " s and was given up; attach again when the file system of its files answers (FUSE, NFS), or "
      "with fewer plugins"));
}

absl::Status stands_still(int pid) {
  return absl::DeadlineExceededError(
      absl::StrCat("pid ", pid,
                   ": memprofd's thread that takes in samples stands still; attach again when the "
                   "machine is less busy"));
}

// The snapshot, with a word on its age when it is not of now.
TargetSnapshotPtr tell_age(TargetSnapshotPtr snapshot) {
  const bool runs = snapshot->info.state == TargetState::kSampling ||
                    snapshot->info.state == TargetState::kWaiting;
  const std::uint64_t now = realtime_ns();
  const auto age = std::chrono::nanoseconds(now - std::min(now, snapshot->time_ns));
  if (!runs || age < kStaleAge) return snapshot;
  auto stale = std::make_shared<TargetSnapshot>(*snapshot);
  stale->info.message = absl::StrCat("its numbers are ",
                                     std::chrono::duration_cast<std::chrono::seconds>(age).count(),
                                     " s old: memprofd is overloaded or stands still, see its log");
  return stale;
}

TargetInfo describe(const AttachedTarget& attachment, double rate) {
  const Target& target = attachment.target();
  TargetInfo info;
  info.pid = target.pid;
  info.container_pid = target.container_pid;
  info.comm = target.comm;
  info.ocamlrunparam = target.ocamlrunparam;
  info.exe = target.exe;
  info.runtime_version = target.abi.version;
  info.mode = attachment.observes() ? kObserveMode : kAgentMode;
  info.sampling_rate = attachment.observes() ? 0 : rate;
  return info;
}

}  // namespace

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), ingest_(hub_, options_.history_bytes) {
  control_ = std::thread([this] { loop(); });
}

Daemon::~Daemon() {
  cancel_requests();
  stop_ = true;
  queue_->wake();
  control_.join();
}

void Daemon::cancel_requests() {
  cancelled_ = true;
  queue_->close();
}

// Everything again and again; what somebody waits for more often.
void Daemon::loop() {
  ::pthread_setname_np(::pthread_self(), "control");
  auto next_tick = Clock::now();
  while (!stop_) {
    const auto until = anybody_waits() ? Clock::now() + kPollInterval : next_tick;
    const auto requests = queue_->wait_until(std::min(until, next_tick));
    if (cancelled_) drop_requests();
    // A request may take a second: nobody waits for more than one.
    for (const auto& request : requests) {
      request();
      tick();
    }
    const bool woken = Clock::now() < until;
    if (requests.empty() && (woken || Clock::now() >= next_tick)) {
      tick();
      next_tick = Clock::now() + kTickSteady;
    } else {
      hasten();
    }
    if (any_waiting()) next_tick = std::min(next_tick, Clock::now() + kTickWaiting);
  }
  stop_all();
}

bool Daemon::any_waiting() const {
  if (!children_.empty()) return true;
  for (const auto& [pid, profiled] : targets_) {
    if (profiled.attachment && !profiled.sampling) return true;
  }
  return false;
}

bool Daemon::anybody_waits() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const auto& entry) { return entry.second.answer.awaited(); });
}

void Daemon::tick() {
  take_over_looks();
  for (auto& [pid, profiled] : targets_) {
    if (profiled.attachment) tick(profiled);
    give_answer(profiled);
  }
  follow_child();
  forget_ended();
}

void Daemon::hasten() {
  for (auto& [pid, profiled] : targets_) {
    if (!profiled.answer.awaited()) continue;
    if (profiled.attachment && !profiled.sampling) tick(profiled);
    give_answer(profiled);
  }
}

// Its caller hears how far it has come, if it takes long.
void Daemon::give_answer(Profiled& profiled) {
  if (!profiled.answer.awaited()) return;
  const bool waits = profiled.attachment && !profiled.sampling;
  if (waits && Clock::now() - profiled.requested_at < kAttachPatience) return;
  profiled.answer.give(attach_result(profiled));
}

// Also what nobody has an answer to yet: looks end by themselves.
void Daemon::drop_requests() {
  openings_.clear();
  for (auto& [pid, profiled] : targets_) profiled.answer.give(ControlQueue::closed());
}

// ------------------------------------------------------------------- requests

absl::Status Daemon::start_session(Profiled& profiled, double rate) {
  AttachedTarget& attachment = *profiled.attachment;
  double requested_rate = rate;
  if (!attachment.observes()) {
    const std::uint32_t generation = attachment.next_generation();
    const bool told = ingest_.run([lane = profiled.lane, generation, rate] {
      lane->pipeline().begin_session(generation, rate);
    });
    if (!told) return stands_still(attachment.target().pid);
  }
  if (profiled.overhead) {
    profiled.overhead->end_window();
    requested_rate = profiled.overhead->budget().ceiling();
  }
  RETURN_IF_ERROR(attachment.begin(rate, requested_rate));
  profiled.lane->update_info(
      [&](TargetInfo& info) { info.capture = capture_name(attachment.capture()); });
  return absl::OkStatus();
}

void Daemon::use(Profiled& profiled, Prepared prepared, double rate) {
  profiled.attachment = std::move(prepared.target);
  profiled.why_observed = std::move(prepared.why_observed);
  profiled.plugins = std::move(prepared.plugins);
  TargetInfo info = describe(*profiled.attachment, rate);
  if (profiled.overhead) info.overhead = profiled.overhead->info();
  info.forked_from = profiled.forked_from;
  profiled.lane =
      std::make_shared<Lane>(profiled.attachment, std::move(prepared.symbolizer), std::move(info));
  ingest_.run([this, lane = profiled.lane] { ingest_.add(lane); });
  keep_lease(*profiled.attachment);
}

// The agent is in the program and stays idle: it found that it cannot sample.
void Daemon::observe_instead(Profiled& profiled, const absl::Status& why) {
  const int pid = profiled.attachment->target().pid;
  Opening opening;
  opening.profiled.forked_from = profiled.forked_from;
  opening.profiled.follow_forks = profiled.follow_forks;
  opening.profiled.requested_at = profiled.requested_at;
  opening.profiled.mode = profiled.mode;
  opening.profiled.answer = std::move(profiled.answer);
  opening.why_instead = why;
  end(profiled, TargetState::kFailed, std::string(why.message()));
  const auto look = [pid, options = options_.attach, why](const std::stop_token& stop) {
    return prepare_instead(pid, options, why, stop);
  };
  if (!start_look(pid, opening, look).ok()) opening.profiled.answer.give(why);
}

void Daemon::do_attach(const AttachRequest& request, AttachAnswer answer) {
  const absl::Status begun = open_target(request, answer);
  if (!begun.ok()) answer.give(begun);
}

absl::Status Daemon::check_request(const AttachRequest& request) const {
  const auto existing = targets_.find(request.pid);
  if (openings_.contains(request.pid) ||
      (existing != targets_.end() && existing->second.attachment)) {
    return absl::AlreadyExistsError(
        absl::StrCat("pid ", request.pid, " is already profiled by this memprofd"));
  }
  if ((request.follow_forks || options_.attach.follow_forks) && !in_initial_pid_namespace()) {
    return absl::FailedPreconditionError(
        "children cannot be followed from inside a pid namespace; run memprofd on the host, or "
        "leave out --follow-forks");
  }
  return absl::OkStatus();
}

absl::Status Daemon::open_target(const AttachRequest& request, AttachAnswer& answer,
                                 int forked_from) {
  Opening opening;
  opening.requested_rate =
      request.sampling_rate != 0 ? request.sampling_rate : options_.sampling_rate;
  opening.max_overhead = request.max_overhead != 0 ? request.max_overhead : options_.max_overhead;
  RETURN_IF_ERROR(check_rate(opening.requested_rate));
  RETURN_IF_ERROR(check_request(request));
  AttachOptions options = options_.attach;
  options.no_inject |= request.no_inject;
  options.follow_forks |= request.follow_forks;
  if (options.ring_bytes == 0) options.ring_bytes = ring_bytes_for(opening.requested_rate);
  Profiled& profiled = opening.profiled;
  profiled.forked_from = forked_from;
  profiled.follow_forks = options.follow_forks;
  profiled.requested_at = Clock::now();
  profiled.mode = request.mode == AttachMode::kDefault ? options_.mode : request.mode;
  profiled.answer = std::move(answer);
  const auto look = [pid = request.pid, options,
                     mode = profiled.mode](const std::stop_token& stop) {
    return prepare_target(pid, options, mode, stop);
  };
  absl::Status started = start_look(request.pid, opening, look);
  if (!started.ok()) answer = std::move(opening.profiled.answer);
  return started;
}

// ---------------------------------------------------------------------- looks

// Leaves the opening as it is when that is impossible.
absl::Status Daemon::start_look(int pid, Opening& opening, LookFunction look) {
  auto started =
      Look<absl::StatusOr<Prepared>>::start(std::move(look), [queue = queue_] { queue->wake(); });
  if (!started.ok()) return started.status();
  opening.look.emplace(*std::move(started));
  openings_.emplace(pid, std::move(opening));
  return absl::OkStatus();
}

void Daemon::take_over_looks() {
  for (auto next = openings_.begin(); next != openings_.end();) {
    const auto here = next++;
    if (!here->second.look->done() && !here->second.look->over_budget()) continue;
    auto taken = openings_.extract(here);
    take_over(taken.key(), std::move(taken.mapped()));
  }
}

void Daemon::take_over(int pid, Opening opening) {
  absl::StatusOr<Prepared> prepared =
      opening.look->done() ? opening.look->take() : took_too_long(pid);
  const int parent = opening.profiled.forked_from;
  const absl::Status begun =
      prepared.ok() ? begin(opening, *std::move(prepared)) : prepared.status();
  if (!begun.ok()) {
    opening.profiled.answer.give(opening.why_instead.ok() ? begun : opening.why_instead);
    if (parent != 0 && !absl::IsNotFound(begun)) {
      leave_alone(parent, LeftAlone::kRefused, std::string(begun.message()));
    }
  } else if (parent != 0) {
    spdlog::info("pid {}: forked by pid {}, followed", pid, parent);
  }
}

// What the look has found is of use as long as that program runs.
absl::Status Daemon::begin(Opening& opening, Prepared prepared) {
  RETURN_IF_ERROR(check_same_program(prepared.target->target()));
  const int pid = prepared.target->target().pid;
  Profiled& profiled = opening.profiled;
  RETURN_IF_ERROR(
      set_budget(profiled, *prepared.target, opening.max_overhead, opening.requested_rate));
  const double rate =
      profiled.overhead ? profiled.overhead->budget().rate() : opening.requested_rate;
  use(profiled, std::move(prepared), rate);
  if (const auto ended = targets_.find(pid); ended != targets_.end()) {
    ingest_.run([this, lane = ended->second.lane] { ingest_.remove(lane.get()); });
    targets_.erase(ended);
  }
  Profiled& kept = targets_.emplace(pid, std::move(profiled)).first->second;
  if (absl::Status status = start_session(kept, rate); !status.ok()) {
    end(kept, TargetState::kFailed, std::string(status.message()));
    kept.answer.give(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<TargetInfo> Daemon::attach_result(const Profiled& profiled) {
  const TargetInfo info = profiled.lane->info();
  if (info.state == TargetState::kFailed) return absl::FailedPreconditionError(info.message);
  if (info.state == TargetState::kExited) {
    return absl::NotFoundError(absl::StrCat("pid ", info.pid, ": ", info.message));
  }
  return info;
}

absl::Status Daemon::do_set_rate(int pid, double rate) {
  RETURN_IF_ERROR(check_rate(rate));
  ASSIGN_OR_RETURN(Profiled* const profiled, find_attached(pid));
  if (profiled->attachment->observes()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pid ", pid,
        " has no sampling rate: it is in observe mode, where minor collections set the "
        "pace (",
        profiled->why_observed, ")"));
  }
  if (profiled->overhead) {
    profiled->overhead->budget().set_ceiling(rate);
    rate = profiled->overhead->budget().rate();
  }
  // A new session would forget the blocks that are followed.
  if (profiled->sampling && profiled->lane->info().sampling_rate == rate) return absl::OkStatus();
  RETURN_IF_ERROR(start_session(*profiled, rate));
  profiled->sampling = false;
  profiled->lane->update_info([&](TargetInfo& info) { info.sampling_rate = rate; });
  wait_for(kRatePatience, [&] {
    if (profiled->attachment && !profiled->sampling) tick(*profiled);
    return !profiled->attachment || profiled->sampling;
  });
  return absl::OkStatus();
}

absl::StatusOr<Daemon::Profiled*> Daemon::find_attached(int pid) {
  const auto found = targets_.find(pid);
  if (found == targets_.end() || !found->second.attachment) {
    return absl::NotFoundError(
        absl::StrCat("pid ", pid, " is not being profiled; `memprofctl targets` lists what is"));
  }
  return &found->second;
}

absl::Status Daemon::do_detach(int pid) {
  if (auto opening = openings_.extract(pid)) {
    opening.mapped().profiled.answer.give(absl::AbortedError(
        absl::StrCat("pid ", pid, " was detached while it was being looked at")));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Profiled* const profiled, find_attached(pid));
  profiled->attachment->request_stop();
  wait_for(kStopPatience, [&] {
    return profiled->attachment->stopped() || has_exited(profiled->attachment->target());
  });
  end(*profiled, TargetState::kDetached, "detached on request");
  return absl::OkStatus();
}

// Everything the target has told is taken in first, then all is undone.
void Daemon::end(Profiled& profiled, TargetState state, const std::string& message) {
  const int pid = profiled.attachment->target().pid;
  spdlog::info("pid {}: {}", pid, message);
  leases_.drop(pid);
  if (profiled.left_alone.unsaid() != 0) {
    spdlog::info("pid {}: {} more of its children were left alone", pid,
                 profiled.left_alone.unsaid());
  }
  ingest_.run([lane = profiled.lane] { lane->catch_up(); });
  profiled.attachment->detach_probes();
  profiled.lane->update_info([&](TargetInfo& info) {
    info.state = state;
    info.message = message;
    info.paused_seconds = profiled.attachment->paused_seconds();
  });
  ingest_.run([this, lane = profiled.lane] { ingest_.finish(*lane); });
  profiled.attachment.reset();
  profiled.plugins = PluginFollower();
  profiled.sampling = false;
  profiled.ended_at = Clock::now();
}

// Those that ended too long ago, and the oldest of too many.
void Daemon::forget_ended() {
  for (;;) {
    std::size_t ended = 0;
    auto oldest = targets_.end();
    for (auto it = targets_.begin(); it != targets_.end(); ++it) {
      if (it->second.attachment) continue;
      ++ended;
      if (oldest == targets_.end() || it->second.ended_at < oldest->second.ended_at) oldest = it;
    }
    if (oldest == targets_.end()) return;
    if (ended <= kMaxEnded && Clock::now() - oldest->second.ended_at <= options_.retention) return;
    ingest_.run([this, lane = oldest->second.lane] { ingest_.remove(lane.get()); });
    targets_.erase(oldest);
  }
}

// All are asked before any is waited for, and all probes go before any is waited for.
void Daemon::stop_all() {
  drop_requests();
  for (auto& [pid, profiled] : targets_) {
    if (profiled.attachment) profiled.attachment->request_stop();
  }
  wait_for(kStopPatience, [&] {
    for (auto& [pid, profiled] : targets_) {
      if (profiled.attachment && !profiled.attachment->stopped()) return false;
    }
    return true;
  });
  for (auto& [pid, profiled] : targets_) {
    if (profiled.attachment) profiled.attachment->kernel().probes().begin_detach();
  }
  for (auto& [pid, profiled] : targets_) {
    if (profiled.attachment) end(profiled, TargetState::kDetached, "memprofd stops");
  }
}

// ------------------------------------------------- ProfilerService, any thread

std::vector<TargetSnapshotPtr> Daemon::snapshots() {
  std::vector<TargetSnapshotPtr> snapshots = hub_.fresh(kSnapshotTimeout);
  for (TargetSnapshotPtr& snapshot : snapshots) snapshot = tell_age(std::move(snapshot));
  return snapshots;
}

absl::StatusOr<TargetSnapshotPtr> Daemon::snapshot(int pid) {
  for (auto& snapshot : snapshots()) {
    if (snapshot->info.pid == pid) return snapshot;
  }
  return absl::NotFoundError(
      absl::StrCat("pid ", pid, " is not a target; `memprofctl targets` lists them"));
}

absl::StatusOr<TargetInfo> Daemon::attach(const AttachRequest& request) {
  std::promise<AttachAnswer::Result> promise;
  auto answer = promise.get_future();
  auto waiting = std::make_shared<AttachAnswer>(std::move(promise));
  queue_->post(
      [this, request, waiting = std::move(waiting)] { do_attach(request, std::move(*waiting)); });
  const bool answered = answer.wait_for(kAttachDeadline) == std::future_status::ready;
  return answered ? answer.get() : ControlQueue::late();
}

absl::Status Daemon::detach(int pid) {
  return queue_->call([this, pid] { return do_detach(pid); });
}

absl::Status Daemon::set_rate(int pid, double rate) {
  return queue_->call([this, pid, rate] { return do_set_rate(pid, rate); });
}

std::vector<Finding> Daemon::diagnose(int pid) {
  return run_doctor(pid, options_.attach.agent_path);
}

SelfStats Daemon::self_stats() {
  SelfStats stats = read_self_stats();
  stats.events = ingest_.records();
  stats.history_bytes = ingest_.history_bytes();
  return stats;
}

}  // namespace memprofd
