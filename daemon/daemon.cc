#include "daemon/daemon.h"

#include <future>

#include "absl/strings/str_cat.h"
#include "daemon/doctor.h"
#include "daemon/self_stats.h"
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
// How long the agent may take to stop at its next callback.
constexpr milliseconds kStopPatience{300};
constexpr milliseconds kRatePatience{500};
constexpr milliseconds kPollInterval{1};
constexpr milliseconds kSnapshotTimeout{2000};
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
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  control_.join();
}

template <typename Fn>
auto Daemon::on_control(Fn fn) -> decltype(fn()) {
  std::packaged_task<decltype(fn())()> task(std::move(fn));
  auto result = task.get_future();
  {
    std::lock_guard lock(mutex_);
    requests_.push_back([&task] { task(); });
  }
  changed_.notify_all();
  return result.get();
}

void Daemon::loop() {
  for (bool stop = false; !stop;) {
    std::deque<std::function<void()>> requests;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, any_waiting() ? kTickWaiting : kTickSteady,
                        [this] { return stop_ || !requests_.empty(); });
      requests.swap(requests_);
      stop = stop_;
    }
    // A request may take a second: nobody waits for more than one.
    for (const auto& request : requests) {
      request();
      tick();
    }
    if (requests.empty()) tick();
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

void Daemon::tick() {
  for (auto& [pid, profiled] : targets_) {
    if (profiled.attachment) tick(profiled);
  }
  follow_child();
  forget_ended();
}

// ------------------------------------------------------------------- requests

absl::Status Daemon::start_session(Profiled& profiled, double rate) {
  AttachedTarget& attachment = *profiled.attachment;
  double requested_rate = rate;
  if (!attachment.observes()) {
    const std::uint32_t generation = attachment.next_generation();
    ingest_.run([&] { profiled.lane->pipeline().begin_session(generation, rate); });
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
  profiled.plugins.add_found(*profiled.attachment);
  TargetInfo info = describe(*profiled.attachment, rate);
  if (profiled.overhead) info.overhead = profiled.overhead->info();
  info.forked_from = profiled.forked_from;
  profiled.lane =
      std::make_shared<Lane>(profiled.attachment, std::move(prepared.symbolizer), std::move(info));
  ingest_.run([&] { ingest_.add(profiled.lane); });
}

// The agent is in the program and stays idle: it found that it cannot sample.
void Daemon::observe_instead(Profiled& profiled, const absl::Status& why) {
  const int pid = profiled.attachment->target().pid;
  const std::shared_ptr<Lane> before = profiled.lane;
  end(profiled, TargetState::kFailed, std::string(why.message()));
  absl::StatusOr<Prepared> prepared = prepare_instead(pid, options_.attach, why);
  if (!prepared.ok()) return;
  profiled.overhead.reset();
  use(profiled, *std::move(prepared), 0);
  ingest_.run([&] { ingest_.remove(before.get()); });
  const absl::Status status = start_session(profiled, 0);
  if (!status.ok()) end(profiled, TargetState::kFailed, std::string(status.message()));
}

absl::StatusOr<TargetInfo> Daemon::do_attach(const AttachRequest& request) {
  const auto requested_at = Clock::now();
  ASSIGN_OR_RETURN(Profiled* const kept, open_target(request, 0));
  while (kept->attachment && !kept->sampling && Clock::now() - requested_at < kAttachPatience) {
    tick(*kept);
    if (kept->attachment && !kept->sampling) std::this_thread::sleep_for(kPollInterval);
  }
  return attach_result(*kept);
}

absl::StatusOr<Daemon::Profiled*> Daemon::open_target(const AttachRequest& request,
                                                      int forked_from) {
  const auto requested_at = Clock::now();
  const auto existing = targets_.find(request.pid);
  if (existing != targets_.end() && existing->second.attachment) {
    return absl::AlreadyExistsError(
        absl::StrCat("pid ", request.pid, " is already profiled by this memprofd"));
  }
  const double requested_rate =
      request.sampling_rate != 0 ? request.sampling_rate : options_.sampling_rate;
  const double max_overhead =
      request.max_overhead != 0 ? request.max_overhead : options_.max_overhead;
  RETURN_IF_ERROR(check_rate(requested_rate));
  AttachOptions options = options_.attach;
  options.no_inject |= request.no_inject;
  options.follow_forks |= request.follow_forks;
  if (options.follow_forks && !in_initial_pid_namespace()) {
    return absl::FailedPreconditionError(
        "children cannot be followed from inside a pid namespace; run memprofd on the host, or "
        "leave out --follow-forks");
  }
  if (options.ring_bytes == 0) options.ring_bytes = ring_bytes_for(requested_rate);
  Profiled profiled;
  profiled.forked_from = forked_from;
  profiled.follow_forks = options.follow_forks;
  profiled.requested_at = requested_at;
  profiled.mode = request.mode == AttachMode::kDefault ? options_.mode : request.mode;
  ASSIGN_OR_RETURN(Prepared prepared, prepare_target(request.pid, options, profiled.mode));
  RETURN_IF_ERROR(set_budget(profiled, *prepared.target, max_overhead, requested_rate));
  const double rate = profiled.overhead ? profiled.overhead->budget().rate() : requested_rate;
  use(profiled, std::move(prepared), rate);
  if (existing != targets_.end()) {
    ingest_.run([&] { ingest_.remove(existing->second.lane.get()); });
    targets_.erase(existing);
  }
  Profiled& kept = targets_.emplace(request.pid, std::move(profiled)).first->second;
  if (absl::Status status = start_session(kept, rate); !status.ok()) {
    end(kept, TargetState::kFailed, std::string(status.message()));
    return status;
  }
  return &kept;
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
  ingest_.run([&] { profiled.lane->catch_up(); });
  profiled.attachment->detach_probes();
  profiled.lane->update_info([&](TargetInfo& info) {
    info.state = state;
    info.message = message;
    info.paused_seconds = profiled.attachment->paused_seconds();
  });
  ingest_.run([&] { ingest_.finish(*profiled.lane); });
  profiled.attachment.reset();
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
    ingest_.run([&] { ingest_.remove(oldest->second.lane.get()); });
    targets_.erase(oldest);
  }
}

// All are asked before any is waited for, and all probes go before any is waited for.
void Daemon::stop_all() {
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

std::vector<TargetSnapshotPtr> Daemon::snapshots() { return hub_.fresh(kSnapshotTimeout); }

absl::StatusOr<TargetSnapshotPtr> Daemon::snapshot(int pid) {
  for (auto& snapshot : snapshots()) {
    if (snapshot->info.pid == pid) return snapshot;
  }
  return absl::NotFoundError(
      absl::StrCat("pid ", pid, " is not a target; `memprofctl targets` lists them"));
}

absl::StatusOr<TargetInfo> Daemon::attach(const AttachRequest& request) {
  return on_control([&] { return do_attach(request); });
}

absl::Status Daemon::detach(int pid) {
  return on_control([&] { return do_detach(pid); });
}

absl::Status Daemon::set_rate(int pid, double rate) {
  return on_control([&] { return do_set_rate(pid, rate); });
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
