// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/daemon.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/control/ended_targets.h"
#include "daemon/control/self_stats.h"
#include "daemon/control/wait_for.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/process_owner.h"
#include "daemon/discover/target_memory.h"
#include "daemon/doctor/doctor.h"
#include "daemon/model/program_end.h"
#include "daemon/state/moment_records.h"
#include "daemon/util/clock.h"
#include "daemon/util/file_id.h"
#include "daemon/util/guard.h"
#include "daemon/util/log.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/values/value_watch.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Work that is due within this time is done together.
constexpr milliseconds kTogether{5};
// Time after which a waiting attach request is answered with "waiting".
constexpr milliseconds kAttachPatience{1500};
// Maximum time for an attach request, whatever the control thread does.
constexpr auto kAttachDeadline = kInspectionBudget + ControlQueue::kPatience;
// Time at the end for the kernel to remove the probes of all targets.
constexpr std::chrono::seconds kDetachPatience{30};
constexpr milliseconds kSnapshotTimeout{2000};
// Age from which numbers are marked as old: longer than a publication of many targets takes.
constexpr milliseconds kStaleAge{5000};
constexpr std::size_t kMaxEnded = 100;

// Returns the snapshot, with a remark about its age if it is old.
ProfileSnapshotPtr with_age(ProfileSnapshotPtr snapshot) {
  const auto age = snapshot->age(realtime_ns());
  if (!is_active(snapshot->info.state) || age < kStaleAge) return snapshot;
  auto stale = std::make_shared<ProfileSnapshot>(*snapshot);
  stale->info.message = absl::StrCat("its numbers are ",
                                     std::chrono::duration_cast<std::chrono::seconds>(age).count(),
                                     " s old: memprofd is overloaded or hangs, see its log");
  return stale;
}

absl::Status not_profiled(int pid) {
  return absl::NotFoundError(
      absl::StrCat("pid ", pid, " is not profiled; `memprofctl targets` lists all targets"));
}

Finding doctor_given_up(const absl::Status& why) {
  return {Finding::Level::kProblem, "look", std::string(why.message()), ""};
}

// Returns findings to a user only if the program belonged to that user during the whole check.
std::vector<Finding> diagnose_for(const RequestedProcess& process, const std::string& agent,
                                  const std::stop_token& stop) {
  if (!process.user) return run_doctor(process.pid, agent, stop);
  const auto memory = TargetMemory::open(process.pid);
  absl::Status meant = memory.ok() ? check_is_meant_now(ProcFs(), process) : memory.status();
  if (!meant.ok()) return {doctor_given_up(meant)};
  std::vector<Finding> findings = run_doctor(process.pid, agent, stop);
  meant = (*memory)->check();
  return meant.ok() ? findings : std::vector{doctor_given_up(meant)};
}

// Number of inspections at the same time.
constexpr int kInspectionsAtOnce = 8;

// True if it was profiled and may still be running.
bool still_runs(const StoredTarget& stored) {
  const TargetInfo& info = stored.snapshot->info;
  const ProcFs proc;
  const auto start_time = proc.start_time(info.pid);
  return info.is_asked && !stored.boot_id.empty() && stored.boot_id == boot_id() &&
         start_time.ok() && *start_time == info.program.start_time_ticks && proc.exists(info.pid);
}

ProfileSnapshotPtr with_state(const ProfileSnapshot& snapshot, TargetState state,
                              const char* message, bool is_asked) {
  auto copy = std::make_shared<ProfileSnapshot>(snapshot);
  copy->info.state = state;
  copy->info.message = message;
  copy->info.is_asked = is_asked;
  return copy;
}

bool publishes_something(ValueProgram& program) {
  return program.registry() != 0 || !program.kept().empty();
}

}  // namespace

Daemon::Daemon(DaemonOptions options, std::unique_ptr<StateStore> state)
    : turned_at_(Clock::now()),
      options_(std::move(options)),
      ingest_(hub_, options_.history_bytes),
      cpu_governor_(options_.cpu_max),
      state_(std::move(state)) {
  if (state_ != nullptr) {
    show_stored();
    state_->start(hub_);
  }
  control_ = std::thread([this] { loop(); });
  value_sampler_ = std::make_unique<ValueSampler>([this] { return publishing_targets(); });
  residency_scanner_ = std::make_unique<ResidencyScanner>([this] { return residency_targets(); });
}

Daemon::~Daemon() { stop(); }

void Daemon::stop() {
  if (!control_.joinable()) return;
  cancel_requests();
  stop_ = true;
  queue_->wake();
  control_.join();
  value_sampler_->stop();  // after all targets are detached, because their memory may hang
  residency_scanner_->stop();
  if (state_ != nullptr) state_->stop();
}

void Daemon::cancel_requests() {
  cancelled_ = true;
  queue_->close();
}

// Does periodic work; polls more often while a client waits.
void Daemon::loop() {
  ::pthread_setname_np(::pthread_self(), "control");
  auto next_tick = Clock::now();
  while (!stop_) {
    turned_at_ = Clock::now();
    const auto until = has_pending_answers() ? Clock::now() + kPollInterval : next_tick;
    const auto requests = queue_->wait_until(std::min(until, next_tick));
    if (cancelled_) drop_requests();
    // A request may take a second, so due targets are supervised after each one.
    for (const auto& request : requests) {
      guarded("to handle a request", request);
      guarded("to supervise targets", [this] { tick(Whom::kDue); });
    }
    const bool woken = Clock::now() < until;
    if (requests.empty() && (woken || Clock::now() >= next_tick)) {
      guarded("to supervise targets", [&] { tick(woken ? Whom::kAll : Whom::kDue); });
      next_tick = Clock::now() + TickPace::kSteady;
    } else {
      guarded("to supervise targets", [this] { answer_pending(); });
    }
    next_tick = std::min(next_tick, next_due());
  }
  stop_all();
}

Clock::time_point Daemon::next_due() const {
  auto due = children_.waiting() ? Clock::now() + TickPace::kSoon : Clock::time_point::max();
  for (const auto& [pid, session] : targets_) {
    if (session->attached()) due = std::min(due, session->due_at());
  }
  return due;
}

bool Daemon::has_pending_answers() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const auto& entry) { return entry.second->answer_awaited(); });
}

void Daemon::tick(Whom whom) {
  take_over_inspections();
  const auto now = Clock::now() + kTogether;
  for (auto& [pid, session] : targets_) {
    const ScopedUser asker(session->user());
    if (session->attached() && whom == Whom::kAll) session->tick();
    if (session->attached() && session->due_at() <= now) session->tick_when_due();
    session->give_answers();
  }
  cpu_governor_.check(targets_);
  follow_child();
  resume_next();
  forget_ended();
}

void Daemon::answer_pending() {
  for (auto& [pid, session] : targets_) {
    if (!session->answer_awaited()) continue;
    const ScopedUser asker(session->user());
    if (session->state() != TargetController::State::kSampling) session->tick();
    session->give_answers();
  }
}

void Daemon::take_over_inspections() {
  for (auto& [pid, session] : targets_) {
    if (session->state() != TargetController::State::kInspecting || !session->inspection_over())
      continue;
    const ScopedUser asker(session->user());
    const absl::Status begun = session->take_over_inspection();
    const int parent = session->forked_from();
    if (parent == 0) continue;
    if (begun.ok()) {
      log_info("pid {}: forked by pid {}, followed", pid, parent);
    } else if (!absl::IsNotFound(begun)) {
      skip_child(parent, SkippedChildren::kRefused, std::string(begun.message()));
    }
  }
}

// Handles one child at a time, so that requests in between are answered.
void Daemon::follow_child() {
  const auto due = children_.next(Clock::now());
  if (!due) return;
  const auto& [family, child] = *due;
  if (may_follow(*family, child)) {
    const ScopedUser asker(user_of(child.parent));
    const absl::Status begun = open_target({.pid = child.pid,
                                            .sampling_rate = child.rate,
                                            .follow_forks = true,
                                            .max_overhead = child.max_overhead,
                                            .user = family->user()},
                                           child.parent, family)
                                   .status();
    if (begun.ok()) return;
    if (!absl::IsAlreadyExists(begun)) {
      skip_child(child.parent, SkippedChildren::kRefused, std::string(begun.message()));
    }
  }
  children_.inspection_over(child.pid, /*given_up=*/false);
}

std::string Daemon::user_of(int pid) const {
  const auto found = targets_.find(pid);
  return found == targets_.end() ? "" : found->second->user();
}

bool Daemon::may_follow(const ForkFamily& family, const ForkedChild& child) {
  const auto followed = std::count_if(targets_.begin(), targets_.end(), [&](const auto& entry) {
    return entry.second->attached() && entry.second->forked_from() != 0 &&
           entry.second->family() == &family;
  });
  if (followed >= ForkFamily::kMaxFollowed) {
    skip_child(child.parent, SkippedChildren::kTooManyFollowed,
               absl::StrCat("pid ", child.pid, ": not followed, ", followed,
                            " forked children are followed already"));
    return false;
  }
  if (family.given_up()) {
    skip_child(
        child.parent, SkippedChildren::kTooManyInspections,
        absl::StrCat("pid ", child.pid, ": not followed, inspections of ", ForkFamily::kMaxGivenUp,
                     " other children of the program hung; attach to its parent again when its "
                     "file system answers (FUSE, NFS)"));
    return false;
  }
  return true;
}

void Daemon::skip_child(int parent, SkippedChildren::Reason reason, const std::string& why) {
  const auto found = targets_.find(parent);
  if (found == targets_.end() || found->second->skip_child(reason)) log_warning("{}", why);
}

// Drops targets that ended too long ago, those beyond kMaxEnded, and those that never began. Those
// that wait to be resumed have not ended, although nothing happens to them yet.
void Daemon::forget_ended() {
  std::erase_if(targets_, [](const auto& entry) {
    return entry.second->state() == TargetController::State::kEnded && !entry.second->has_counts();
  });
  std::set<int> resuming;
  for (const ProfileSnapshotPtr& waiting : to_resume_) resuming.insert(waiting->info.pid);
  for (;;) {
    std::vector<EndedTarget> ended;
    for (const auto& [pid, session] : targets_) {
      if (session->state() != TargetController::State::kEnded || resuming.contains(pid)) continue;
      ended.push_back({pid, session->owner(), session->ended_at(),
                       is_failure(session->target_pipeline()->info().end)});
    }
    const auto next = next_to_forget(ended, kMaxEnded, Clock::now() - options_.retention);
    if (!next) return;
    const auto found = targets_.find(*next);
    found->second->forget();
    targets_.erase(found);
  }
}

// ------------------------------------------------------------------- requests

absl::Status Daemon::check_request(const AttachRequest& request) const {
  const auto existing = targets_.find(request.pid);
  if (existing != targets_.end() && (existing->second->state() != TargetController::State::kEnded ||
                                     waiting_to_resume(request.pid) != to_resume_.end())) {
    if (existing->second->is_detaching()) {
      return absl::UnavailableError(absl::StrCat(
          "pid ", request.pid, " is being detached by this memprofd; attach again in a moment"));
    }
    return absl::AlreadyExistsError(
        absl::StrCat("pid ", request.pid,
                     " is already profiled by this memprofd; `memprofctl rate` changes its rate, "
                     "and after `memprofctl detach` an attach can use another mode"));
  }
  if ((request.follow_forks || options_.attach.follow_forks) && !in_initial_pid_namespace()) {
    return absl::FailedPreconditionError(
        "children cannot be followed from inside a pid namespace; run memprofd on the host, or "
        "leave out --follow-forks");
  }
  return absl::OkStatus();
}

absl::StatusOr<TargetController*> Daemon::open_target(const AttachRequest& request, int forked_from,
                                                      ForkFamilyPtr family,
                                                      ProfileSnapshotPtr resumes_from) {
  SessionOptions options{
      .pid = request.pid,
      .attach = options_.attach,
      .mode = request.mode == AttachMode::kDefault ? options_.mode : request.mode,
      .rate = request.sampling_rate != 0 ? request.sampling_rate : options_.sampling_rate,
      .max_overhead = request.max_overhead.value_or(options_.max_overhead),
      .forked_from = forked_from,
      .family = std::move(family),
      .user = ScopedUser::current()};
  RETURN_IF_ERROR(check_rate(options.rate));
  RETURN_IF_ERROR(check_request(request));
  options.attach.no_inject |= request.no_inject;
  options.attach.follow_forks |= request.follow_forks;
  options.attach.start_time_ticks = request.start_time_ticks;
  options.attach.user = request.user;
  options.attach.native_heap_interval =
      request.native_heap_interval.value_or(options.attach.native_heap_interval);
  if (options.attach.ring_bytes == 0) {
    options.attach.ring_bytes = ring_bytes_for(options.rate, options.max_overhead,
                                               options.attach.native_heap_interval != 0);
  }
  const auto before = targets_.find(request.pid);
  ASSIGN_OR_RETURN(auto session,
                   TargetController::open(std::move(options), context_,
                                          before == targets_.end() ? nullptr : before->second.get(),
                                          std::move(resumes_from)));
  return (targets_[request.pid] = std::move(session)).get();
}

absl::StatusOr<TargetController*> Daemon::find_attached(const RequestedProcess& process) {
  const auto found = targets_.find(process.pid);
  if (found == targets_.end() || !found->second->attached()) return not_profiled(process.pid);
  RETURN_IF_ERROR(found->second->check_is_meant(process));
  return found->second.get();
}

// Answers at once, or hands the answer to the session.
void Daemon::do_detach(const RequestedProcess& process, SessionAnswer answer) {
  const int pid = process.pid;
  const auto found = targets_.find(pid);
  const auto given_up = cancel_resume(process);
  if (!given_up.ok()) return answer.give(given_up.status());
  if (*given_up) return answer.give(TargetInfo());
  if (found == targets_.end() || found->second->state() == TargetController::State::kEnded) {
    return answer.give(not_profiled(pid));
  }
  if (found->second->attached()) {
    const absl::Status meant = found->second->check_is_meant(process);
    if (!meant.ok()) return answer.give(meant);
  }
  found->second->detach("detached on request", /*still_asked=*/false);
  found->second->answer_when_ended(std::move(answer));
}

void Daemon::do_set_rate(const RequestedProcess& process, const RateRequest& request,
                         SessionAnswer answer) {
  const auto session = find_attached(process);
  if (!session.ok()) return answer.give(session.status());
  const absl::Status status = (*session)->set_rate(request);
  if (!status.ok()) return answer.give(status);
  (*session)->answer_when_sampling(std::move(answer), TargetController::kRatePatience);
}

// Drops the requests that wait for a target; its inspection ends by itself.
void Daemon::drop_requests() {
  for (auto& [pid, session] : targets_) {
    if (session->state() == TargetController::State::kInspecting) {
      session->give_up_inspection(ControlQueue::closed());
    } else {
      session->drop_answers();
    }
  }
}

// Ends all sessions at the same time.
void Daemon::stop_all() {
  drop_requests();
  for (auto& [pid, session] : targets_) {
    if (session->attached()) session->detach("memprofd stops", /*still_asked=*/true);
  }
  wait_for(kDetachPatience, [&] {
    bool all = true;
    for (auto& [pid, session] : targets_) {
      if (session->attached()) session->tick();
      all &= !session->attached();
    }
    return all;
  });
}

// ------------------------------------------------- ProfilerService, any thread

void Daemon::mark_moment() { hub_.mark_moment(kSnapshotTimeout); }

std::vector<ProfileSnapshotPtr> Daemon::snapshots() {
  std::vector<ProfileSnapshotPtr> snapshots = hub_.fresh(kSnapshotTimeout);
  for (ProfileSnapshotPtr& snapshot : snapshots) snapshot = with_age(std::move(snapshot));
  return snapshots;
}

std::vector<ProfileSnapshotPtr> Daemon::lasting_snapshots() {
  std::vector<ProfileSnapshotPtr> snapshots = this->snapshots();
  if (state_ != nullptr) state_->write(snapshots);
  return snapshots;
}

void Daemon::write_down() {
  if (state_ != nullptr) lasting_snapshots();
}

absl::StatusOr<ProfileSnapshotPtr> Daemon::snapshot(int pid) {
  ASSIGN_OR_RETURN(ProfileSnapshotPtr snapshot,
                   hub_.fresh_of(pid, kSnapshotTimeout, ControlQueue::kPatience));
  return with_age(std::move(snapshot));
}

absl::StatusOr<std::uint64_t> Daemon::process_start_ticks(int pid) {
  return ProcFs().start_time(pid);
}

absl::StatusOr<TargetInfo> Daemon::attach(const AttachRequest& request) {
  auto attached = queue_->ask<absl::StatusOr<TargetInfo>>(
      [this, request, user = ScopedUser::current()](SessionAnswer answer) {
        const ScopedUser asker(user);
        const auto opened = open_target(request, 0, std::make_shared<ForkFamily>(request.user));
        if (!opened.ok()) return answer.give(opened.status());
        (*opened)->answer_when_sampling(std::move(answer), kAttachPatience);
      },
      kAttachDeadline);
  if (attached.ok()) write_down();
  return attached;
}

absl::Status Daemon::detach(const RequestedProcess& process) {
  const auto ended = queue_->ask<absl::StatusOr<TargetInfo>>(
      [this, process](SessionAnswer answer) { do_detach(process, std::move(answer)); });
  if (ended.ok()) write_down();
  return ended.status();
}

absl::Status Daemon::set_rate(const RequestedProcess& process, const RateRequest& request) {
  const auto set =
      queue_->ask<absl::StatusOr<TargetInfo>>([this, process, request](SessionAnswer answer) {
        do_set_rate(process, request, std::move(answer));
      });
  if (set.ok()) write_down();
  return set.status();
}

// Runs on the caller's thread, which waits until the control thread grants the lease.
absl::StatusOr<HeapSource> Daemon::heap_source(const RequestedProcess& process) {
  using Source = absl::StatusOr<HeapSource>;
  return queue_->ask<Source>([this, process](Answer<Source> answer) {
    const auto session = find_attached(process);
    answer.give(session.ok() ? (*session)->heap_source() : session.status());
  });
}

absl::StatusOr<HeapPoints> Daemon::heap_points(int pid) {
  ASSIGN_OR_RETURN(const HeapSource source, heap_source(pid));
  return points_of(*source.lease);
}

absl::StatusOr<HeapSummary> Daemon::take_heap(const HeapRequest& request,
                                              const HeapClient& client) {
  const auto began = std::chrono::steady_clock::now();
  const auto source = heap_source(request.process);
  const auto target =
      snapshot(request.process.pid);  // another process may have this pid afterwards
  const auto summary = source.ok() ? memprofd::take_heap(*source, request, client)
                                   : absl::StatusOr<HeapSummary>(source.status());
  heap_outcomes_->count(summary.status());
  if (summary.ok()) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    heap_outcomes_->count_times(taken.count(), summary->pause_seconds);
  }
  if (summary.ok() && target.ok()) {
    heap_outcomes_->count_taken(request.process.pid, (*target)->attached_ns);
  }
  return summary;
}

// Runs on the caller's thread, which waits until the control thread has identified the program.
absl::StatusOr<std::shared_ptr<ValueProgram>> Daemon::value_program(
    const RequestedProcess& process) {
  using Program = absl::StatusOr<std::shared_ptr<ValueProgram>>;
  return queue_->ask<Program>([this, process](Answer<Program> answer) {
    const auto session = find_attached(process);
    answer.give(session.ok() ? Program((*session)->values()) : session.status());
  });
}

// Like value_program(), but fails if the program publishes no values.
absl::StatusOr<std::shared_ptr<ValueProgram>> Daemon::publishing_program(
    const RequestedProcess& process) {
  ASSIGN_OR_RETURN(auto program, value_program(process));
  if (program->registry() != 0) return program;
  return absl::FailedPreconditionError(absl::StrCat(
      "pid ", process.pid, " publishes no values: it is not linked with memprof-agent.values"));
}

absl::StatusOr<std::uint32_t> Daemon::resume(const RequestedProcess& process) {
  ASSIGN_OR_RETURN(const auto program, publishing_program(process));
  return resume_report(program->memory(), program->registry());
}

absl::StatusOr<std::uint32_t> Daemon::adjust(const RequestedProcess& process,
                                             const PublishedControl& control) {
  ASSIGN_OR_RETURN(const auto program, publishing_program(process));
  return control_report(program->memory(), program->registry(), control);
}

absl::StatusOr<std::vector<std::string>> Daemon::keep_values(const RequestedProcess& process,
                                                             const KeepRequest& request) {
  ASSIGN_OR_RETURN(const auto program, value_program(process));
  KeepRequest with_types = request;
  with_types.types = &types_;
  return memprofd::keep_values(*program, with_types);
}

absl::StatusOr<RequestAnswer> Daemon::ask(const RequestedProcess& process,
                                          const PublishedRequest& request,
                                          const std::function<bool()>& wanted) {
  ASSIGN_OR_RETURN(const auto program, publishing_program(process));
  return ask_report(program->memory(), program->registry(), request, wanted);
}

absl::StatusOr<ValuesAnswer> Daemon::read_values(const RequestedProcess& process,
                                                 const ValuesRequest& request,
                                                 const std::function<bool()>& wanted) {
  std::shared_ptr<ValueProgram> program;
  if (request.watch != nullptr) program = request.watch->program();
  if (program == nullptr) {
    if (process.user) RETURN_IF_ERROR(check_is_meant_now(ProcFs(), process));
    ASSIGN_OR_RETURN(program, value_program(process));
    if (request.watch != nullptr) RETURN_IF_ERROR(request.watch->set_program(program));
  }
  ValuesRequest with_types = request;
  with_types.types = &types_;
  return memprofd::read_values(*program, with_types, wanted);
}

// Call from any thread except the control thread.
std::vector<PublishingTarget> Daemon::publishing_targets() {
  using Targets = absl::StatusOr<std::vector<PublishingTarget>>;
  auto listed = queue_->ask<Targets>([this](Answer<Targets> answer) {
    std::vector<PublishingTarget> publishing;
    for (auto& [pid, session] : targets_) {
      if (!session->attached() || !publishes_something(*session->values())) continue;
      publishing.push_back({session->values(), [this, target_pipeline = session->target_pipeline()](
                                                   ValueSample sample) {
                              ingest_.post([target_pipeline, sample = std::move(sample)]() mutable {
                                target_pipeline->note_values(std::move(sample));
                              });
                            }});
    }
    answer.give(std::move(publishing));
  });
  return listed.ok() ? *std::move(listed) : std::vector<PublishingTarget>();
}

// Runs on the caller's thread.
std::vector<PublishedValues> Daemon::read_published(const ValuesRequest& request) {
  ValuesRequest with_types = request;
  with_types.types = &types_;
  std::vector<PublishedValues> published;
  for (const PublishingTarget& target : publishing_targets()) {
    published.push_back({target.program->pid(),
                         memprofd::read_values(*target.program, with_types, [] { return true; })});
  }
  return published;
}

std::vector<ResidencyTarget> Daemon::residency_targets() {
  using Targets = absl::StatusOr<std::vector<ResidencyTarget>>;
  auto listed = queue_->ask<Targets>([this](Answer<Targets> answer) {
    std::vector<ResidencyTarget> followed;
    for (auto& [pid, session] : targets_) {
      if (!session->attached()) continue;
      if (auto target = session->residency_target()) followed.push_back(*std::move(target));
    }
    answer.give(std::move(followed));
  });
  return listed.ok() ? *std::move(listed) : std::vector<ResidencyTarget>();
}

std::vector<Finding> Daemon::diagnose(const RequestedProcess& process) {
  // The answer is shared only with the same user and for the same process.
  auto found =
      diagnoses_.ask(process, process.pid,
                     [process, agent = options_.attach.agent_path](const std::stop_token& stop) {
                       return diagnose_for(process, agent, stop);
                     });
  return found.ok() ? *std::move(found) : std::vector{doctor_given_up(found.status())};
}

SelfStats Daemon::self_stats() {
  SelfStats stats = read_self_stats();
  stats.events = ingest_.records();
  stats.cpu_max = options_.cpu_max;
  stats.history_bytes = ingest_.history_bytes();
  if (state_ != nullptr) {
    stats.state_bytes = state_->bytes();
    stats.state_write_errors = state_->write_errors();
  }
  stats.control_silent_seconds =
      std::chrono::duration<double>(Clock::now() - turned_at_.load()).count();
  return stats;
}

// -------------------------------------------- targets of the previous memprofd

// Runs before the control thread starts.
void Daemon::show_stored() {
  std::size_t all = 0;
  for (const StoredTarget& stored : state_->take_stored()) {
    ++all;
    ProfileSnapshotPtr snapshot = stored.snapshot;
    auto ended_at = Clock::now() - snapshot->age(realtime_ns());
    if (still_runs(stored)) {
      resuming_.insert(snapshot->info.pid);
      to_resume_.push_back(snapshot);
      snapshot = with_state(*snapshot, TargetState::kWaiting,
                            "resuming after a restart of memprofd: inspecting the program", true);
    } else if (snapshot->info.is_asked) {
      ended_at = Clock::now();
      snapshot = with_state(*snapshot, TargetState::kExited,
                            "the program ended while memprofd did not run", false);
    }
    targets_[snapshot->info.pid] = TargetController::of_ended(snapshot, ended_at, context_);
  }
  if (all == 0) return;
  log_info("state: {} targets of an earlier memprofd, {} of them still run", all,
           to_resume_.size());
}

void Daemon::resume_next() {
  auto inspections = std::count_if(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second->state() == TargetController::State::kInspecting;
  });
  for (; !to_resume_.empty() && inspections < kInspectionsAtOnce; ++inspections) {
    const ProfileSnapshotPtr next = to_resume_.front();
    to_resume_.pop_front();
    const TargetInfo& info = next->info;
    const absl::Status begun = open_target(info.asked, info.forked_from,
                                           std::make_shared<ForkFamily>(info.asked.user), next)
                                   .status();
    if (absl::IsResourceExhausted(begun)) {
      to_resume_.push_front(next);
      return;
    }
    if (!begun.ok()) targets_[info.pid]->cannot_resume(begun);
  }
}

std::deque<ProfileSnapshotPtr>::const_iterator Daemon::waiting_to_resume(int pid) const {
  return std::find_if(
      to_resume_.begin(), to_resume_.end(),
      [pid](const ProfileSnapshotPtr& waiting) { return waiting->info.pid == pid; });
}

// Returns true if the target was waiting to be resumed.
absl::StatusOr<bool> Daemon::cancel_resume(const RequestedProcess& process) {
  const auto waiting = waiting_to_resume(process.pid);
  if (waiting == to_resume_.end()) return false;
  const TargetInfo& info = (*waiting)->info;
  RETURN_IF_ERROR(check_is_meant(process, info.program.start_time_ticks, info.owner));
  to_resume_.erase(waiting);
  targets_[process.pid]->cannot_resume(absl::CancelledError("detached on request"));
  return true;
}

std::unique_ptr<TargetController> TargetController::of_ended(
    ProfileSnapshotPtr snapshot, std::chrono::steady_clock::time_point ended_at,
    const SessionContext& context) {
  std::unique_ptr<TargetController> session(new TargetController(
      {.pid = snapshot->info.pid, .forked_from = snapshot->info.forked_from}, context));
  session->ended_at_ = ended_at;
  session->target_pipeline_ = std::make_shared<TargetPipeline>(std::move(snapshot));
  context.ingest.post([&ingest = context.ingest, target_pipeline = session->target_pipeline_] {
    ingest.add(target_pipeline);
  });
  return session;
}

void TargetController::cannot_resume(const absl::Status& why) {
  resumes_from_ = nullptr;
  if (!absl::IsAborted(why)) log_warning("{}", std::string(about(why).message()));
  target_pipeline_->update_info([&](TargetInfo& info) {
    const bool detached = absl::IsAborted(why) || absl::IsCancelled(why);
    info.state = detached                ? TargetState::kDetached
                 : absl::IsNotFound(why) ? TargetState::kExited
                                         : TargetState::kFailed;
    info.message = std::string(why.message());
    info.is_asked = !absl::IsCancelled(why) && !absl::IsNotFound(why);
  });
}

// The path does not identify a program: it changes when the file is replaced, and may be the same
// after the program has changed.
ProgramIdentity TargetController::identity_of(const Target& target) {
  return {.start_time_ticks = target.start_time_ticks,
          .file = file_id(target.program_file->get()).value_or(FileId()),
          .load_bias = target.load_bias};
}

absl::Status TargetController::check_resumes(const Target& target) const {
  if (resumes_from_ == nullptr || resumes_from_->info.program == identity_of(target)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      "the program was replaced (exec) while memprofd did not run; attach to it again");
}

}  // namespace memprofd
