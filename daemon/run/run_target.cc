// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/run_target.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/pipeline/agent_drops.h"
#include "daemon/util/base_name.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Limits for the width of history windows. Windows start short, so that the peak of a short run is
// found.
constexpr std::uint64_t kShortestWindowNs = 5'000'000, kLongestWindowNs = 1'000'000'000;
constexpr std::uint64_t kWindowsSoFar = 100;  // a window lasts 1/100 of the time so far
constexpr std::uint64_t kRenewNs = AgentControl::kLeaseNs / 3;

std::uint64_t realtime_of(std::uint64_t monotonic) {
  return realtime_ns() - (monotonic_ns() - monotonic);
}

double allocated_by(const GcStats& stats) {
  return stats.minor_words + stats.major_words - stats.promoted_words;
}

std::string name_of_capture(memprof_capture_by capture) {
  return capture == MEMPROF_CAPTURE_BY_AGENT ? "agent" : "runtime";
}

}  // namespace

RunTarget::RunTarget(RunPrograms& programs, SharedAgent agent, std::string comm, double rate)
    : programs_(programs),
      agent_(std::move(agent)),
      comm_(std::move(comm)),
      rate_(rate),
      began_ns_(realtime_ns()),
      history_(began_ns_) {}

absl::StatusOr<std::unique_ptr<RunTarget>> RunTarget::create(RunPrograms& programs,
                                                             const std::string& program,
                                                             std::string comm,
                                                             const ShareOptions& options) {
  ASSIGN_OR_RETURN(SharedAgent agent, SharedAgent::create(options));
  std::unique_ptr<RunTarget> target(
      new RunTarget(programs, std::move(agent), std::move(comm), options.rate));
  // If the file is not an OCaml program, it may start one, which is detected then.
  if (auto found = programs.find(program); found.ok()) {
    target->program_ = *std::move(found);
    target->agent_.set_offsets(runtime_offsets(target->program_->abi()));
  }
  return target;
}

absl::StatusOr<std::unique_ptr<RunTarget>> RunTarget::create(RunPrograms& programs, int pid,
                                                             std::shared_ptr<RunProgram> program,
                                                             const ShareOptions& options) {
  ASSIGN_OR_RETURN(SharedAgent agent, SharedAgent::create(options));
  std::string comm(base_name(program->name()));
  std::unique_ptr<RunTarget> target(
      new RunTarget(programs, std::move(agent), std::move(comm), options.rate));
  target->agent_.set_offsets(runtime_offsets(program->abi()));
  target->program_ = std::move(program);
  target->is_certain_ = true;
  target->pid_ = pid;
  return target;
}

absl::StatusOr<std::unique_ptr<RunTarget>> RunTarget::attach(RunPrograms& programs, int pid,
                                                             SharedAgent agent, double rate) {
  ASSIGN_OR_RETURN(std::shared_ptr<RunProgram> program,
                   programs.find(absl::StrCat("/proc/", pid, "/exe")));
  std::string comm(base_name(program->name()));
  std::unique_ptr<RunTarget> target(
      new RunTarget(programs, std::move(agent), std::move(comm), rate));
  target->program_ = std::move(program);
  target->is_certain_ = target->awaits_session_ = true;
  target->pid_ = pid;
  return target;
}

absl::Status RunTarget::begin_pipeline(const ShareTaker& taker) {
  if (!is_certain_ &&
      (program_ == nullptr || (!taker.exe.empty() && taker.exe != program_->name()))) {
    ASSIGN_OR_RETURN(program_, programs_.find(taker.exe));
    agent_.set_offsets(runtime_offsets(program_->abi()));
  }
  exe_ = taker.exe.empty() ? program_->name() : taker.exe;
  const RuntimeAbi& abi = program_->abi();
  version_ = abi.version;
  ASSIGN_OR_RETURN(load_bias_, program_->load_bias(taker.callback_exn));
  if (auto counters = RuntimeCounters::open(pid_, exe_, program_->ocaml(), load_bias_);
      counters.ok()) {
    counters_ = *std::move(counters);
  }
  note_words_before();
  ASSIGN_OR_RETURN(symbolizer_, program_->names_at(load_bias_));
  PipelineLimits limits;
  if (abi.domains) limits.sample_id_step = MEMPROF_BUFFERS;
  pipeline_ = std::make_unique<Pipeline>(limits);
  if (awaits_session_) {
    if (const auto before = agent_.status(); before.ok()) first_status_ = *before;
    pipeline_->expect(agent_.positions());
    ASSIGN_OR_RETURN(generation_, agent_.begin_session(rate_, runtime_offsets(abi)));
  } else {
    pipeline_->expect({});  // the session may have begun
  }
  pipeline_->begin_session(generation_, rate_);
  if (abi.domains) pipeline_->follow_since(generation_);
  tap_ = std::make_unique<EventTap>(*pipeline_, std::make_shared<EventLog>());
  return absl::OkStatus();
}

void RunTarget::begin(const ShareTaker& taker) {
  if (!is_certain_) pid_ = taker.pid;
  const absl::Status status = begin_pipeline(taker);
  agent_.answer();
  if (!status.ok()) {
    problem_ = std::string(status.message());
    return;
  }
  publish(TargetState::kSampling, "");
}

bool RunTarget::window_is_due() const {
  const std::uint64_t now = realtime_ns();
  const std::uint64_t length = std::clamp((now - std::min(now, began_ns_)) / kWindowsSoFar,
                                          kShortestWindowNs, kLongestWindowNs);
  return now >= history_.last_close_ns() + length;
}

// Keeps the last numbers of an ended program.
void RunTarget::read_counters() {
  if (!counters_) return;
  if (const auto stats = counters_->read(agent_); stats.ok()) gc_ = *stats;
}

// A program that was started has allocated nothing before sampling began.
void RunTarget::note_words_before() {
  gc_ = {};
  if (!is_certain_) {
    words_before_ = 0;
    return;
  }
  read_counters();
  if (gc_.valid) words_before_ = allocated_by(gc_);
}

std::optional<double> RunTarget::allocated_words() const {
  if (!gc_.valid || !words_before_) return std::nullopt;
  return std::max(0.0, allocated_by(gc_) - *words_before_);
}

// The agent ends a session by itself when its lease has run out.
bool RunTarget::has_lapsed() const {
  const auto status = agent_.status();
  return lapsed_ns() != 0 && sampling() && status.ok() && status->state == MEMPROF_AGENT_IDLE;
}

// We may have been stopped since the last renewal, in the middle of anything.
std::uint64_t RunTarget::lapsed_ns() const {
  const std::uint64_t over = renewed_ns_ + AgentControl::kLeaseNs;
  return renewed_ns_ != 0 && monotonic_ns() > over ? over : lapsed_ns_;
}

void RunTarget::withdraw() {
  withdrawn_ns_ = has_lapsed() ? lapsed_ns() : monotonic_ns();
  agent_.end_session();
}

std::uint64_t RunTarget::ended_ns() const {
  return withdrawn_ns_ == 0 && has_lapsed() ? lapsed_ns() : withdrawn_ns_;
}

std::uint64_t RunTarget::end_or_now_ns() const {
  const std::uint64_t ended = ended_ns();
  return ended == 0 ? monotonic_ns() : std::max(ended, pipeline_->aggregator().now_ns());
}

double RunTarget::sampled_seconds() const {
  if (!sampling()) return 0;
  const std::uint64_t end = realtime_of(end_or_now_ns());
  return static_cast<double>(end - std::min(end, began_ns_)) / 1e9;
}

void RunTarget::count_agent_drops() {
  const absl::StatusOr<AgentStatus> status = agent_.status();
  if (status.ok()) set_agent_drops(*status, first_status_, pipeline_->drops());
}

void RunTarget::close_window() {
  read_counters();
  agent_.catch_up(*pipeline_, ended_ns());
  count_agent_drops();
  const std::uint64_t now = std::max(realtime_of(end_or_now_ns()), history_.last_close_ns() + 1);
  const TargetCounters& totals = pipeline_->aggregator().totals();
  history_.close_window(now, [this](const auto& use) { pipeline_->close_interval(use); },
                        {.live = totals.live,
                         .heap_words = gc_.heap_words,
                         .minor_collections = gc_.minor_collections,
                         .major_collections = gc_.major_collections,
                         .compactions = gc_.compactions,
                         .dropped_events = pipeline_->drops().lost()});
  history_.note_live(now, totals.live, totals.gone_words(), pipeline_->aggregator().by_class());
}

void RunTarget::update() {
  const std::uint64_t now = monotonic_ns();
  if (now - renewed_ns_ >= kRenewNs) {
    lapsed_ns_ = lapsed_ns();
    renewed_ns_ = now;
    agent_.renew();
  }
  if (!begun()) {
    // Leaves events in the ring until the next call, so that a recording can start in between.
    const std::optional<ShareTaker> taker = agent_.taker();
    if (taker && problem_.empty()) begin(*taker);
    return;
  }
  tap_->update();
  agent_.drain(*pipeline_);
  if (awaits_session_ && sampling()) {
    awaits_session_ = false;
    began_ns_ = realtime_ns();
    history_ = History(began_ns_);
    note_words_before();
  }
  if (!awaits_session_ && withdrawn_ns_ == 0 && window_is_due()) close_window();
  tap_->flush();
}

SampleSites RunTarget::sites_of(const std::vector<SampleId>& numbers) {
  agent_.catch_up(*pipeline_);
  SampleSites sites = find_sample_sites(*pipeline_, numbers);
  sites.sampled_since_ns = 1;  // from its first allocation on
  return sites;
}

void RunTarget::refresh() {
  if (!begun()) return;
  close_window();
  publish(TargetState::kSampling, "");
}

void RunTarget::finish(const ProgramEnd& end) {
  end_ = end;
  this->end(TargetState::kExited, end_text(end));
}

void RunTarget::detach() { end(TargetState::kDetached, ""); }

bool RunTarget::stopped() const {
  const auto status = agent_.status();
  return !status.ok() || status->state != MEMPROF_AGENT_SAMPLING;
}

std::string RunTarget::why_not_sampling() const {
  const auto status = agent_.status();
  if (!status.ok()) return "";
  if (has_lapsed()) {
    return absl::StrCat("is no longer sampled, because memprofctl was stopped for more than ",
                        AgentControl::kLeaseNs / 1'000'000'000, " s");
  }
  if (status->generation != generation_) return "";
  switch (status->state) {
    case MEMPROF_AGENT_IN_USE:
      return "uses Gc.Memprof itself; its tracker was not touched";
    case MEMPROF_AGENT_UNSUPPORTED:
      return "has a modified OCaml runtime with an unknown layout of Gc.Memprof";
    case MEMPROF_AGENT_STOPPED:
      return "has called Gc.Memprof.stop";
    case MEMPROF_AGENT_ASIDE:
      return "has started a Gc.Memprof tracker of its own";
    default:
      return "";
  }
}

void RunTarget::end(TargetState state, const std::string& message) {
  if (!begun()) return;
  tap_->update();
  agent_.catch_up(*pipeline_, ended_ns());
  pipeline_->end();
  close_window();
  publish(state, message);  // first: recordings that end with the events read the time of the end
  tap_->close();
}

void RunTarget::publish(TargetState state, const std::string& message) {
  auto snapshot = std::make_shared<ProfileSnapshot>();
  const absl::StatusOr<AgentStatus> status = agent_.status();
  snapshot->info = {.pid = pid_,
                    .comm = comm_,
                    .exe = exe_,
                    .runtime_version = version_,
                    .mode = TargetMode::kAgent,
                    .capture = name_of_capture(status.ok() ? status->running_capture
                                                           : MEMPROF_CAPTURE_BY_RUNTIME),
                    .state = state,
                    .message = message,
                    .end = end_,
                    .sampling_rate = rate_};
  snapshot->time_ns = history_.last_close_ns();
  snapshot->attached_ns = began_ns_;
  snapshot->gc = gc_;
  snapshot->symbolizer = symbolizer_;
  snapshot->events = tap_->log();
  pipeline_->fill(*snapshot);
  snapshot->history = history_.view();
  const MutexLock lock(mutex_);
  published_ = std::move(snapshot);
}

absl::StatusOr<ProfileSnapshotPtr> RunTarget::snapshot(int) {
  const MutexLock lock(mutex_);
  if (published_ == nullptr) return absl::NotFoundError("the program has not started");
  return published_;
}

std::vector<ProfileSnapshotPtr> RunTarget::snapshots() {
  const MutexLock lock(mutex_);
  if (published_ == nullptr) return {};
  return {published_};
}

}  // namespace memprofd
