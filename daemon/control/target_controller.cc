// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/target_controller.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/attach/budget/rate_limit_text.h"
#include "daemon/control/wait_for.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/process_owner.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Time for an abandoned inspection to release its program.
constexpr milliseconds kInspectionStopPatience{1000};
// Time for which a copy of a program waits for the sites of its sampled blocks.
constexpr milliseconds kSitesPatience{2000};

// Sets every option, because the next memprofd may have other defaults.
AttachRequest request_of(const SessionOptions& options) {
  return {.pid = options.pid,
          .sampling_rate = options.rate,
          .no_inject = options.attach.no_inject,
          .mode = options.mode,
          .follow_forks = options.attach.follow_forks,
          .max_overhead = options.max_overhead,
          .user = options.attach.user,
          .native_heap_interval = options.attach.native_heap_interval};
}

TargetInfo describe(const AttachedTarget& attachment, double rate) {
  const Target& target = attachment.target();
  TargetInfo info;
  info.pid = target.pid;
  info.container_pid = target.container_pid;
  info.comm = target.comm;
  info.unit = target.workload.unit;
  info.container = target.workload.container;
  info.ocamlrunparam = target.ocamlrunparam;
  info.exe = target.exe;
  info.owner = target.owner;
  info.runtime_version = target.abi.version;
  info.mode = attachment.observes() ? TargetMode::kObserve : TargetMode::kAgent;
  info.sampling_rate = attachment.observes() ? 0 : rate;
  return info;
}

// If this many samples have no capture, the capture probe does not work.
constexpr std::uint64_t kSelfTestSamples = 64;
constexpr milliseconds kAnnouncePatience{2000};
// Maximum time from the end of a thread to the end of its program.
constexpr milliseconds kEndPatience{100};
constexpr milliseconds kKeepAliveInterval{1000};
constexpr milliseconds kOwnerInterval{1000};
// A ring is read at least every 50 ms unless the processors are busy.
constexpr milliseconds kBehind{1000};
// Time limit for a read of a target's memory. On an overloaded machine (a load of 30 on 2
// processors) the reading process has waited for more than 10 s.
constexpr std::chrono::seconds kSilentPatience{30};

// One line; empty for a target with an agent.
std::string observe_text(const std::string& why) {
  return why.empty() ? "" : absl::StrCat("observe mode: ", why);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// "profiling took 14 % of its CPU, the budget is 1.0 %".
std::string overhead_text(const OverheadInfo& overhead) {
  return absl::StrCat("profiling took ", format_share(overhead.measured, 1),
                      " of its CPU, the budget is ", format_share(overhead.budget, 1));
}

void log_exhausted(int pid, double rate, const OverheadInfo& overhead) {
  log_warning(
      "pid {}: {} even at {}, the lowest rate that a budget sets; raise --max-overhead, or detach",
      pid, overhead_text(overhead), format_rate(rate));
}

void log_memory_full(int pid) {
  log_warning(
      "pid {}: the memory for all targets (--memory.max) is used up: new blocks of it are not "
      "followed, new callstacks cut (memprofd_given_up_events_total, "
      "memprofd_dropped_events_total); "
      "raise it, lower sampling rates, or detach from other programs",
      pid);
}

}  // namespace

// Names the target in the error, because a client may have asked for several targets.
absl::Status TargetController::about(const absl::Status& status) const {
  return about_pid(options_.pid, status);
}

// ---------------------------------------------------------------- inspections

absl::StatusOr<std::unique_ptr<TargetController>> TargetController::open(
    SessionOptions options, const SessionContext& context, TargetController* before,
    ProfileSnapshotPtr resumes_from) {
  std::unique_ptr<TargetController> session(new TargetController(std::move(options), context));
  session->resumes_from_ = std::move(resumes_from);
  struct stat process {};
  if (::stat(ProcFs().path(session->options_.pid, "").c_str(), &process) == 0) {
    session->owner_ = process.st_uid;
  }
  const SessionOptions& asked = session->options_;
  RETURN_IF_ERROR(session->inspect(
      [pid = asked.pid, attach = asked.attach, mode = asked.mode](const std::stop_token& stop) {
        return prepare_target(pid, attach, mode, stop);
      }));
  if (before != nullptr) {
    session->target_pipeline_ = before->target_pipeline_;
    session->ended_at_ = before->ended_at_;
  }
  return session;
}

TargetController::~TargetController() { enter(State::kEnded); }

void TargetController::enter(State state) {
  if (state_ == State::kInspecting) {
    const bool given_up = std::exchange(inspection_, std::nullopt).has_value();
    context_.children.inspection_over(options_.pid, given_up);
  }
  state_ = state;
  pace_.enter(Clock::now());
}

absl::Status TargetController::inspect(InspectionFunction inspection) {
  auto started = TargetInspection::start(
      [inspection =
           std::move(inspection)](const std::stop_token& stop) -> absl::StatusOr<PreparedTarget> {
        auto prepared = inspection(stop);
        // An unwanted result is destroyed here, because that may take a while.
        if (stop.stop_requested()) return absl::AbortedError("given up");
        return prepared;
      },
      context_.wake);
  if (!started.ok()) return started.status();
  enter(State::kInspecting);
  inspection_.emplace(*std::move(started));
  return absl::OkStatus();
}

void TargetController::give_up_inspection(const absl::Status& why) {
  refuse(why);
  if (resumes_from_ != nullptr) cannot_resume(why);
  enter(State::kEnded);
}

// Gives the inspection time to release the program, so that the next attach finds it free.
void TargetController::detach_inspection() {
  if (inspect_until_ != TimePoint::max()) return;
  inspect_until_ = Clock::now() + kInspectionStopPatience;
  inspection_->request_stop();
  if (resumes_from_ != nullptr) cannot_resume(absl::CancelledError("detached on request"));
  refuse(absl::AbortedError(
      absl::StrCat("pid ", options_.pid, " was detached while it was being inspected")));
}

absl::Status TargetController::take_over_inspection() {
  if (inspect_until_ != TimePoint::max()) {
    enter(State::kEnded);
    return absl::NotFoundError("detached");
  }
  absl::StatusOr<PreparedTarget> prepared = inspection_took_too_long(options_.pid);
  if (inspection_->done()) prepared = std::exchange(inspection_, std::nullopt)->take();
  absl::Status begun = prepared.ok() ? begin(*std::move(prepared)) : prepared.status();
  if (!begun.ok())
    give_up_inspection(why_no_agent_.empty() ? begun
                                             : absl::FailedPreconditionError(why_no_agent_));
  return begun;
}

// Attaches. The result of the inspection is valid only while the inspected program runs.
absl::Status TargetController::begin(PreparedTarget prepared) {
  RETURN_IF_ERROR(check_same_program(prepared.target->target()));
  RETURN_IF_ERROR(check_resumes(prepared.target->target()));
  skipped_children_ = {};
  attached_.emplace();
  double rate = options_.rate;
  if (!prepared.target->observes()) {
    attached_->overhead.emplace(options_.max_overhead, options_.rate, options_.attach.capture);
    rate = attached_->overhead->budget().rate();
  }
  use(std::move(prepared), rate);
  enter(State::kWaiting);
  if (absl::Status status = start_session(rate); !status.ok()) {
    refuse(status);
    end(TargetState::kFailed, std::string(status.message()));
  }
  return absl::OkStatus();
}

void TargetController::use(PreparedTarget prepared, double rate) {
  attached_->target = std::move(prepared.target);
  attached_->symbolizer = std::move(prepared.symbolizer);
  attached_->why_observed = std::move(prepared.why_observed);
  attached_->plugins = std::move(prepared.plugins);
  TargetInfo info = describe(*attached_->target, rate);
  if (attached_->overhead) info.overhead = attached_->overhead->info();
  info.forked_from = options_.forked_from;
  info.program = identity_of(attached_->target->target());
  info.asked = request_of(options_);
  if (attached_->target->observes()) info.asked.native_heap_interval = 0;  // until probes follow it
  info.is_asked = true;
  const auto before = std::exchange(
      target_pipeline_, std::make_shared<TargetPipeline>(attached_->target, attached_->symbolizer,
                                                         std::move(info), resumes_from_));
  context_.ingest.post([&ingest = context_.ingest, before, target_pipeline = target_pipeline_] {
    ingest.add(target_pipeline);
    if (before) ingest.remove(before.get());
  });
  keep_lease();
}

// Switches to observe mode because the agent detected that it cannot sample; it stays idle in the
// program. Reuses the result of the inspection when the ingest thread has released it.
void TargetController::observe_instead(const std::string& why_no_agent) {
  attached_->target->begin_detach();
  const auto before = std::make_shared<Attached>(end_attached(TargetState::kFailed, why_no_agent));
  why_no_agent_ = why_no_agent;
  const absl::Status inspections =
      inspect([before, attach = options_.attach,
               why_no_agent](const std::stop_token&) -> absl::StatusOr<PreparedTarget> {
        before->caught_up.wait();
        before->target->detach();
        InspectedProgram found{before->target->release_target(), std::move(before->symbolizer),
                               std::move(before->plugins)};
        before->target.reset();
        return prepare_instead(std::move(found), attach, why_no_agent);
      });
  if (!inspections.ok()) give_up_inspection(absl::FailedPreconditionError(why_no_agent));
}

// -------------------------------------------------------------------- answers

void TargetController::answer_when_sampling(SessionAnswer answer, milliseconds patience) {
  pending_answers_.push_back({State::kSampling, patience, std::move(answer)});
}

void TargetController::answer_when_ended(SessionAnswer answer) {
  pending_answers_.push_back({State::kEnded, milliseconds::max(), std::move(answer)});
}

// Answers with the current state if the attach takes longer than the request waits.
void TargetController::give_answers() {
  if (state_ == State::kInspecting || state_ == State::kStopping) return;
  const TimePoint now = Clock::now();
  std::erase_if(pending_answers_, [&](PendingAnswer& pending) {
    if (!pending.until) {
      const bool endless = pending.patience == milliseconds::max();
      pending.until = endless ? TimePoint::max() : now + pending.patience;
    }
    if (state_ != pending.wanted && state_ != State::kEnded && now < *pending.until) return false;
    pending.answer.give(result(pending.wanted));
    return true;
  });
}

void TargetController::refuse(const absl::Status& why) {
  for (PendingAnswer& pending : pending_answers_) pending.answer.give(about(why));
  pending_answers_.clear();
}

absl::StatusOr<TargetInfo> TargetController::result(State wanted) const {
  if (wanted == State::kEnded)
    return target_pipeline_ == nullptr ? TargetInfo() : target_pipeline_->info();
  const TargetInfo info = target_pipeline_->info();
  if (info.state == TargetState::kFailed) {
    return about(absl::FailedPreconditionError(info.message));
  }
  if (info.state == TargetState::kExited || info.state == TargetState::kDetached) {
    return about(absl::NotFoundError(info.message));
  }
  return info;
}

// ------------------------------------------------------------------- sessions

absl::Status TargetController::start_session(double rate) {
  AttachedTarget& target = *attached_->target;
  memprof_capture_by capture = capture_of(options_.attach.capture);
  if (!target.observes()) {
    target_pipeline_->request_session(target.next_generation(), rate);
  }
  if (attached_->overhead) {
    attached_->overhead->end_window();
    capture = attached_->overhead->capture();
  }
  RETURN_IF_ERROR(target.begin(rate, capture));
  target_pipeline_->update_info(
      [&](TargetInfo& info) { info.capture = capture_name(target.capture()); });
  return absl::OkStatus();
}

absl::Status TargetController::set_rate(const RateRequest& request) {
  if (state_ == State::kStopping) {
    return absl::NotFoundError(absl::StrCat("pid ", options_.pid, " is being detached"));
  }
  if (attached_->target->observes()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pid ", options_.pid,
        " has no sampling rate: it is in observe mode, where minor collections set the "
        "pace (",
        attached_->why_observed, ")"));
  }
  OverheadBudget& budget = attached_->overhead->budget();
  if (request.max_overhead) budget.set_share(*request.max_overhead);
  if (request.sampling_rate != 0) budget.set_ceiling(request.sampling_rate);
  target_pipeline_->update_info([&](TargetInfo& info) {
    if (request.max_overhead) info.asked.max_overhead = request.max_overhead;
    if (request.sampling_rate != 0) info.asked.sampling_rate = request.sampling_rate;
  });
  const double rate = budget.rate();
  const bool runs_at_it =
      state_ == State::kSampling && target_pipeline_->info().sampling_rate == rate;
  show_overhead();
  // A new session might forget the followed blocks, so the running one is kept.
  if (runs_at_it) return absl::OkStatus();
  RETURN_IF_ERROR(start_session(rate));
  enter(State::kWaiting);
  return absl::OkStatus();
}

absl::Status TargetController::check_is_meant(const RequestedProcess& asked) const {
  return memprofd::check_is_meant(asked, attached_->target->target().start_time_ticks,
                                  target_pipeline_->info().owner);
}

absl::StatusOr<HeapSource> TargetController::heap_source() {
  if (state_ == State::kStopping) {
    return absl::NotFoundError(absl::StrCat("pid ", options_.pid, " is being detached"));
  }
  ASSIGN_OR_RETURN(auto lease, attached_->target->copy_lease());
  return HeapSource{.lease = std::move(lease),
                    .symbolizer = attached_->symbolizer,
                    .sampling_rate = target_pipeline_->info().sampling_rate,
                    .sites = [&ingest = context_.ingest,
                              target_pipeline = target_pipeline_](std::vector<SampleId> numbers) {
                      const auto sites = std::make_shared<SampleSites>();
                      const std::future<void> found =
                          ingest.post([target_pipeline, sites, numbers = std::move(numbers)] {
                            *sites = target_pipeline->sites_of(numbers);
                          });
                      const bool in_time =
                          found.wait_for(kSitesPatience) == std::future_status::ready;
                      return in_time ? std::move(*sites) : SampleSites();
                    }};
}

std::optional<ResidencyTarget> TargetController::residency_target() const {
  if (!attached_->target->native_heap().follows()) return std::nullopt;
  return ResidencyTarget{
      .pid = options_.pid,
      .memory = attached_->target->target().memory,
      .blocks =
          [&ingest = context_.ingest, target_pipeline = target_pipeline_] {
            const auto blocks = std::make_shared<std::vector<NativeBlock>>();
            const std::future<void> taken_in = ingest.post(
                [target_pipeline, blocks] { *blocks = target_pipeline->native_blocks(); });
            const bool in_time = taken_in.wait_for(kSitesPatience) == std::future_status::ready;
            return in_time ? std::move(*blocks) : std::vector<NativeBlock>();
          },
      .keep =
          [&ingest = context_.ingest, target_pipeline = target_pipeline_](ResidencyScan scan) {
            ingest.post([target_pipeline, scan = std::move(scan)] {
              target_pipeline->note_native_blocks(scan);
            });
          }};
}

std::shared_ptr<ValueProgram> TargetController::values() {
  if (attached_->values == nullptr) {
    attached_->values =
        std::make_shared<ValueProgram>(attached_->target->target(), attached_->symbolizer);
  }
  return attached_->values;
}

// ----------------------------------------------------------------------- ends

void TargetController::detach(std::string message, bool still_asked) {
  if (state_ == State::kInspecting) return detach_inspection();
  if (!running()) return;
  attached_->still_asked = still_asked;
  stop(TargetState::kDetached, std::move(message), kStopPatience);
}

void TargetController::end(TargetState state, std::string message) {
  stop(state, std::move(message), milliseconds(0));
  continue_stopping();
}

void TargetController::stop(TargetState state, std::string message, milliseconds patience) {
  attached_->target->request_stop();
  target_pipeline_->slow_to(0);
  attached_->end_state = state;
  attached_->end_message = std::move(message);
  attached_->stops_until = Clock::now() + patience;
  enter(State::kStopping);
}

TargetController::Attached TargetController::end_attached(TargetState state,
                                                          const std::string& message) {
  const int pid = options_.pid;
  if (state == TargetState::kFailed || is_failure(attached_->how_ended)) {
    log_warning("{}", about_pid(pid, message));
  } else {
    log_info("{}", about_pid(pid, message));
  }
  context_.leases.drop(pid);
  target_pipeline_->slow_to(0);
  if (const std::uint64_t not_logged = skipped_children_.not_logged(); not_logged != 0) {
    log_info("pid {}: {} more of its children were not followed", pid, not_logged);
  }
  target_pipeline_->update_info([&](TargetInfo& info) {
    info.state = state;
    info.message = message;
    info.end = attached_->how_ended;
    info.is_asked = attached_->still_asked;
    info.paused_seconds = attached_->target->paused_seconds();
  });
  attached_->caught_up =
      context_.ingest.post([&ingest = context_.ingest, target_pipeline = target_pipeline_] {
        ingest.finish(*target_pipeline);
      });
  Attached before = *std::move(attached_);
  attached_.reset();
  ended_at_ = Clock::now();
  return before;
}

void TargetController::forget() {
  context_.ingest.post([&ingest = context_.ingest, target_pipeline = target_pipeline_] {
    ingest.remove(target_pipeline.get());
  });
}

// --------------------------------------------------------------- periodic work

// True if no check is due: the program has not run and its ring has no new records, so nothing can
// have changed. Other work is due once a second.
bool TargetController::at_rest() {
  if (state_ != State::kSampling || attached_->target->observes()) return false;
  const TimePoint now = Clock::now();
  const std::uint64_t records = target_pipeline_->signals().records;
  const std::uint64_t cpu_ns = process_cpu_ns(options_.pid);
  const bool same = cpu_ns != 0 && cpu_ns == std::exchange(attached_->checked_cpu_ns, cpu_ns);
  const bool has_events = records != std::exchange(attached_->checked_records, records);
  if (same && !has_events && now - attached_->checked_at < kKeepAliveInterval) {
    return !has_exited(attached_->target->target());
  }
  attached_->checked_at = now;
  return false;
}

void TargetController::tick() {
  watch();
  keep_pace();
}

void TargetController::tick_when_due() {
  if (at_rest()) return keep_pace();
  tick();
}

void TargetController::keep_pace() {
  const auto now = Clock::now();
  if (state_ == State::kStopping) return pace_.ticked_stopping(now);
  if (state_ == State::kWaiting) return pace_.ticked_waiting(now);
  pace_.ticked_steady(now);
}

void TargetController::watch() {
  if (state_ == State::kStopping) return continue_stopping();
  const bool exec_seen =
      target_pipeline_->signals().exec_seen;  // read first, so that earlier forks are noted
  note_children();
  if (has_exited(attached_->target->target())) {
    end_exited();
  } else if (exec_seen) {
    end_program({.cause = EndCause::kExec});
  } else if (const auto& memory = *attached_->target->target().memory;
             attached_->silence.so_far(Clock::now(), memory.silent_for()) > kSilentPatience) {
    end(TargetState::kFailed, std::string(memory.silent().message()));
  } else if (state_ == State::kWaiting) {
    advance();
  } else {
    check_probes();
    if (running()) keep_to_budget();
  }
  if (running() && !attached_->target->injecting()) {
    attached_->plugins.follow(target_pipeline_->signals().frametables_registered,
                              *attached_->target, context_.wake);
  }
  if (running() && target_pipeline_->memory_refused() > 0 &&
      !std::exchange(attached_->logged_memory_full, true)) {
    log_memory_full(options_.pid);
  }
  if (running()) find_owner();
  if (running()) keep_alive();
  if (running()) watch_native_heap();
}

// If the kernel denies a user access while the program runs, it stays denied after its end.
void TargetController::find_owner() {
  const auto owner = target_pipeline_->info().owner;
  if (!owner || Clock::now() - attached_->owner_seen_at < kOwnerInterval) return;
  attached_->owner_seen_at = Clock::now();
  const auto process = memprofd::find_owner(ProcFs(), options_.pid);
  if (!process.ok() || process->has_ended || process->owner == owner) return;
  target_pipeline_->update_info([](TargetInfo& info) { info.owner = std::nullopt; });
}

void TargetController::continue_stopping() {
  AttachedTarget& target = *attached_->target;
  const bool patient = Clock::now() < attached_->stops_until;
  if (patient && !target.stopped() && !has_exited(target.target())) return;
  attached_->stops_until = {};
  target.begin_detach();
  if (!target.detached()) return;
  target.detach();
  end_attached(attached_->end_state, attached_->end_message);
  enter(State::kEnded);
}

void TargetController::advance() {
  AttachedTarget& target = *attached_->target;
  const bool had_agent = target.agent() != nullptr;
  const auto progress = target.advance();
  if (!had_agent && target.agent() != nullptr) {
    context_.ingest.post([target_pipeline = target_pipeline_, agent = *target.agent()] {
      target_pipeline->set_agent(agent);
    });
    keep_lease();
  }
  if (!progress.ok()) return end_attach(progress.status());
  attached_->lost_since = {};
  if (*progress == AttachedTarget::Progress::kAgain)
    return start_again(target_pipeline_->info().sampling_rate);
  if (*progress == AttachedTarget::Progress::kNoAgent) {
    if (options_.mode == AttachMode::kAuto) return observe_instead(target.why_no_agent());
    return end_attach(absl::FailedPreconditionError(
        absl::StrCat(target.why_no_agent(), "; attach without --mode agent to observe it")));
  }
  if (*progress == AttachedTarget::Progress::kSampling) {
    enter(State::kSampling);
    resumes_from_ = nullptr;
    attached_->sampling_since = Clock::now();
  }
  show_progress();
}

// A missing thread usually means that the whole program is ending. If it does not end, the attach
// continues with another thread.
void TargetController::end_attach(const absl::Status& why) {
  const absl::Status same = check_same_program(attached_->target->target());
  if (absl::IsFailedPrecondition(same)) {
    return end_program({.cause = EndCause::kExec}, ", during the attach");
  }
  if (absl::IsNotFound(same)) {
    return end_program(attached_->target->kernel().program_end(), ", during the attach");
  }
  if (!absl::IsNotFound(why)) return end(TargetState::kFailed, std::string(why.message()));
  if (attached_->lost_since == TimePoint()) attached_->lost_since = Clock::now();
  if (Clock::now() - attached_->lost_since < kEndPatience) return;
  end(TargetState::kFailed, absl::StrCat("the kernel lost the thread that loads the agent (",
                                         why.message(), "); attach again"));
}

// The status message of a target that is sampled.
std::string TargetController::sampling_text() const {
  std::vector<std::string> parts{observe_text(attached_->why_observed)};
  if (!attached_->why_no_native_heap.empty()) {
    parts.push_back("the native heap is not followed: " + attached_->why_no_native_heap);
  }
  if (attached_->slowed) {
    parts.emplace_back("read slowly, with losses, as memprofd may take no more CPU (--cpu.max)");
  } else if (attached_->overhead) {
    parts.push_back(rate_limit_text(attached_->overhead->budget(), attached_->target->capture(),
                                    options_.attach.capture, attached_->cpu.cores()));
  }
  std::erase(parts, "");
  return absl::StrJoin(parts, "; ");
}

void TargetController::show_progress() {
  const AttachedTarget& target = *attached_->target;
  const bool sampling = state_ == State::kSampling;
  target_pipeline_->update_info([&](TargetInfo& info) {
    info.state = sampling ? TargetState::kSampling : TargetState::kWaiting;
    info.message = sampling ? sampling_text() : target.waiting_for();
    info.paused_seconds = target.paused_seconds();
    info.capture = capture_name(target.capture());
    if (sampling && info.attach_seconds == 0) info.attach_seconds = seconds_since(requested_at_);
  });
  if (!sampling) return;
  log_info("pid {}: sampling {}{}{}", options_.pid, target.target().comm,
           target.observes()
               ? absl::StrCat(", ", observe_text(attached_->why_observed))
               : absl::StrCat(" at ", format_rate(target_pipeline_->info().sampling_rate)),
           std::exchange(attached_->why_rate, ""));
}

// Some kernels accept a probe that never fires, so only events prove that it works. The agent
// announces each session through its probe. A capture precedes its sample, so samples without any
// capture prove that the capture probe is silent. If the probe fires for other programs, this
// program is not what it claims to be.
void TargetController::check_probes() {
  if (attached_->target->observes()) return;  // a program may allocate nothing for a long time
  const PipelineSignals& signals = target_pipeline_->signals();
  FiredProbes& fired = context_.fired;
  fired.agent |= signals.batches_seen > 0;
  fired.capture |=
      signals.captures_seen > 0 && attached_->target->capture() == MEMPROF_CAPTURE_BY_KERNEL;
  const char* silent = nullptr;
  bool elsewhere = false;
  const TimePoint announced = attached_->sampling_since + kAnnouncePatience;
  if (signals.consumed_until.load() > announced && signals.batches_seen == 0) {
    silent = "the agent's probe";
    elsewhere = fired.agent;
  } else if (signals.alloc_events >= kSelfTestSamples && signals.captures_seen == 0) {
    silent = "the capture probe";
    elsewhere = fired.capture;
  }
  if (silent == nullptr) return;
  end(TargetState::kFailed,
      absl::StrCat(silent, elsewhere
                               ? " fires in other programs but not in this one: its agent or "
                                 "runtime is modified; attach with --mode observe"
                               : " does not fire on this kernel; try another kernel and report "
                                 "this one"));
}

void TargetController::note_children() {
  const TargetInfo info = target_pipeline_->info();
  for (const int pid : target_pipeline_->take_children()) {
    if (context_.children.add(options_.family, {.pid = pid,
                                                .parent = info.pid,
                                                .exe = info.exe,
                                                .rate = info.requested_rate(),
                                                .max_overhead = info.overhead.budget,
                                                .seen_at = Clock::now()})) {
      continue;
    }
    if (skip_child(SkippedChildren::kTooManyForks)) {
      log_warning("pid {}: not followed, because too many processes are being forked", pid);
    }
  }
}

// The target reports its grandchildren until its children are followed themselves: a program that
// becomes a daemon ends before its grandchild starts.
void TargetController::end_exited() {
  if (options_.attach.follow_forks) {
    std::future<void>& caught_up = attached_->caught_up;
    if (!caught_up.valid()) {
      caught_up = context_.ingest.post(
          [target_pipeline = target_pipeline_] { target_pipeline->catch_up(); });
    }
    if (caught_up.wait_for(milliseconds(0)) != std::future_status::ready) return;
    note_children();
    if (context_.children.any_of(options_.pid)) return;
  }
  end_program(attached_->target->kernel().program_end());
}

void TargetController::end_program(const ProgramEnd& how, const char* when) {
  attached_->how_ended = how;
  end(TargetState::kExited, absl::StrCat(end_text(how), when));
}

// Starts renewing the lease if there is an agent. A lease has no effect on an agent that was not
// asked to sample.
void TargetController::keep_lease() {
  AttachedTarget& target = *attached_->target;
  if (target.agent() == nullptr) return;
  const std::shared_ptr<const TargetMemory> memory = target.target().memory;
  std::optional<NativeHeapControl> native_heap;
  if (const NativeHeapControl* control = target.native_heap().control(); control != nullptr) {
    native_heap = control->through(memory->quick());
  }
  context_.leases.keep(options_.pid,
                       [memory, native_heap, agent = target.agent()->through(memory->quick())] {
                         if (native_heap) native_heap->inspect_filters();
                         (void)agent.renew();
                       });
}

void TargetController::keep_alive() {
  if (Clock::now() - attached_->kept_alive_at < kKeepAliveInterval) return;
  attached_->kept_alive_at = Clock::now();
  // The agent's state cannot have changed if the program has not run.
  const std::uint64_t cpu_ns = process_cpu_ns(options_.pid);
  const std::uint64_t before_ns = std::exchange(attached_->alive_cpu_ns, cpu_ns);
  if (state_ == State::kSampling && cpu_ns != 0 && cpu_ns == before_ns) return;
  const std::string why_ended = attached_->target->keep_alive(state_ == State::kSampling);
  if (why_ended.empty() || has_exited(attached_->target->target())) return;
  // Logs each reason once: a program may stop Memprof repeatedly.
  if (std::exchange(attached_->why_ended, why_ended) != why_ended) {
    log_warning("pid {}: {}; starting again", options_.pid, why_ended);
  }
  start_again(target_pipeline_->info().sampling_rate);
}

// Reports whether the native heap is followed. Probes that cost too much are removed.
void TargetController::watch_native_heap() {
  AttachedTarget& target = *attached_->target;
  NativeHeapFollower& native_heap = target.native_heap();
  native_heap.watch();
  const bool follows = native_heap.follows();
  const std::string why_not = native_heap.why_not();
  if (follows == attached_->follows_native_heap && why_not == attached_->why_no_native_heap) return;
  const bool observes = target.observes();
  const std::uint64_t interval = options_.attach.native_heap_interval;
  if (follows && observes)
    log_info("pid {}: the native heap is followed by probes at malloc and free", options_.pid);
  if (!why_not.empty())
    log_warning("pid {}: the native heap is not followed: {}", options_.pid, why_not);
  if (!follows && attached_->follows_native_heap)
    context_.ingest.post(
        [target_pipeline = target_pipeline_] { target_pipeline->end_native_heap(); });
  attached_->follows_native_heap = follows;
  attached_->why_no_native_heap = why_not;
  target_pipeline_->update_info([&](TargetInfo& info) {
    if (observes) info.asked.native_heap_interval = follows ? interval : 0;
    if (state_ == State::kSampling) info.message = sampling_text();
  });
}

// ------------------------------------------------------------------- overhead

void TargetController::show_overhead() {
  TargetOverhead& overhead = *attached_->overhead;
  target_pipeline_->update_info([&](TargetInfo& info) {
    info.overhead = overhead.info();
    info.overhead.memprofd_cores = attached_->cpu.cores();
    info.sampling_rate = overhead.budget().rate();
    if (state_ == State::kSampling) info.message = sampling_text();
    info.paused_seconds = attached_->target->paused_seconds();  // a snapshot adds to this
  });
}

std::string TargetController::why_changed(OverheadBudget::Change change, bool was_held) const {
  const OverheadBudget& budget = attached_->overhead->budget();
  if (change == OverheadBudget::Change::kRaised) {
    return absl::StrCat(", raised: ", was_held ? "--cpu.max leaves more for it"
                                               : overhead_text(attached_->overhead->info()));
  }
  if (!budget.held()) {
    return absl::StrCat(", lowered: ", overhead_text(attached_->overhead->info()));
  }
  return absl::StrCat(", lowered: memprofd took ", format_share(attached_->cpu.cores(), 1),
                      " of a processor for it, --cpu.max leaves ",
                      format_share(attached_->cpu_limit, 1),
                      "; raise that, or ask for lower sampling rates");
}

void TargetController::keep_to_budget() {
  if (!attached_->overhead) return;
  TargetOverhead& overhead = *attached_->overhead;
  const bool was_held = overhead.budget().held();
  const bool was_exhausted = overhead.budget().exhausted();
  const TargetOverhead::Due due = overhead.measure(*attached_->target, attached_->target->kernel(),
                                                   target_pipeline_->signals());
  show_overhead();
  const OverheadInfo now = overhead.info();
  const double rate = overhead.budget().rate();
  if (now.exhausted && !was_exhausted && !attached_->logged_exhausted) {
    log_exhausted(options_.pid, rate, now);
    attached_->logged_exhausted = true;
  }
  if (!due.any()) return;
  attached_->why_rate =
      due.capture ? ", " + overhead.why_capture() : why_changed(due.rate, was_held);
  start_again(rate);
}

CpuBound::Target TargetController::cpu_taken() {
  const std::uint64_t now_ns = target_pipeline_->signals().ingest_ns;
  const std::uint64_t ns = now_ns - std::exchange(attached_->cpu_ns, now_ns);
  return {.use = &attached_->cpu,
          .cpu_seconds = static_cast<double>(ns) * 1e-9,
          .held = attached_->overhead && attached_->overhead->budget().held(),
          .behind = Clock::now() - target_pipeline_->signals().consumed_until.load() > kBehind};
}

void TargetController::limit_cpu(double limit) {
  if (!running()) return;
  attached_->cpu_limit = limit;
  if (attached_->overhead) attached_->overhead->budget().allow_memprofd(limit);
  const bool slowed = attached_->cpu.slowed();
  target_pipeline_->slow_to(slowed ? limit : 0);
  if (slowed != std::exchange(attached_->slowed, slowed)) log_slowed(slowed);
  target_pipeline_->update_info([&](TargetInfo& info) {
    info.overhead.memprofd_cores = attached_->cpu.cores();
    if (state_ == State::kSampling) info.message = sampling_text();
  });
}

void TargetController::log_slowed(bool slowed) const {
  if (!slowed) return log_info("pid {}: its events are read without delay again", options_.pid);
  log_warning(
      "pid {}: its events took {} of a processor, --cpu.max leaves {}: they are read no faster, "
      "and some are lost (memprofd_dropped_events_total); raise --cpu.max, or detach",
      options_.pid, format_share(attached_->cpu.cores(), 1), format_share(attached_->cpu_limit, 1));
}

// Starts a session like the current one, at this rate; ends the attach if that is impossible.
void TargetController::start_again(double rate) {
  const absl::Status status = start_session(rate);
  if (!status.ok()) return end(TargetState::kFailed, std::string(status.message()));
  enter(State::kWaiting);
}

}  // namespace memprofd
