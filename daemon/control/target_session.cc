// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/target_session.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/control/wait_for.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"

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

}  // namespace

// Names the target in the error, because a client may have asked for several targets.
absl::Status TargetSession::about(const absl::Status& status) const {
  return about_pid(options_.pid, status);
}

// ---------------------------------------------------------------- inspections

absl::StatusOr<std::unique_ptr<TargetSession>> TargetSession::open(
    SessionOptions options, const SessionContext& context, TargetSession* before,
    ProfileSnapshotPtr resumes_from) {
  std::unique_ptr<TargetSession> session(new TargetSession(std::move(options), context));
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

TargetSession::~TargetSession() { enter(State::kEnded); }

void TargetSession::enter(State state) {
  if (state_ == State::kInspecting) {
    const bool given_up = std::exchange(inspection_, std::nullopt).has_value();
    context_.children.inspection_over(options_.pid, given_up);
  }
  state_ = state;
  pace_.enter(Clock::now());
}

absl::Status TargetSession::inspect(InspectionFunction inspection) {
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

void TargetSession::give_up_inspection(const absl::Status& why) {
  refuse(why);
  if (resumes_from_ != nullptr) cannot_resume(why);
  enter(State::kEnded);
}

// Gives the inspection time to release the program, so that the next attach finds it free.
void TargetSession::detach_inspection() {
  if (inspect_until_ != TimePoint::max()) return;
  inspect_until_ = Clock::now() + kInspectionStopPatience;
  inspection_->request_stop();
  if (resumes_from_ != nullptr) cannot_resume(absl::CancelledError("detached on request"));
  refuse(absl::AbortedError(
      absl::StrCat("pid ", options_.pid, " was detached while it was being inspected")));
}

absl::Status TargetSession::take_over_inspection() {
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
absl::Status TargetSession::begin(PreparedTarget prepared) {
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

void TargetSession::use(PreparedTarget prepared, double rate) {
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
void TargetSession::observe_instead(const std::string& why_no_agent) {
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

void TargetSession::answer_when_sampling(SessionAnswer answer, milliseconds patience) {
  pending_answers_.push_back({State::kSampling, patience, std::move(answer)});
}

void TargetSession::answer_when_ended(SessionAnswer answer) {
  pending_answers_.push_back({State::kEnded, milliseconds::max(), std::move(answer)});
}

// Answers with the current state if the attach takes longer than the request waits.
void TargetSession::give_answers() {
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

void TargetSession::refuse(const absl::Status& why) {
  for (PendingAnswer& pending : pending_answers_) pending.answer.give(about(why));
  pending_answers_.clear();
}

absl::StatusOr<TargetInfo> TargetSession::result(State wanted) const {
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

absl::Status TargetSession::start_session(double rate) {
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

absl::Status TargetSession::set_rate(const RateRequest& request) {
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

absl::Status TargetSession::check_is_meant(const AskedProcess& asked) const {
  return memprofd::check_is_meant(asked, attached_->target->target().start_time_ticks,
                                  target_pipeline_->info().owner);
}

absl::StatusOr<HeapSource> TargetSession::heap_source() {
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

std::optional<ResidencyTarget> TargetSession::residency_target() const {
  if (!attached_->target->follows_native_heap()) return std::nullopt;
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

std::shared_ptr<ValueProgram> TargetSession::values() {
  if (attached_->values == nullptr) {
    attached_->values =
        std::make_shared<ValueProgram>(attached_->target->target(), attached_->symbolizer);
  }
  return attached_->values;
}

// ----------------------------------------------------------------------- ends

void TargetSession::detach(std::string message, bool still_asked) {
  if (state_ == State::kInspecting) return detach_inspection();
  if (!running()) return;
  attached_->still_asked = still_asked;
  stop(TargetState::kDetached, std::move(message), kStopPatience);
}

void TargetSession::end(TargetState state, std::string message) {
  stop(state, std::move(message), milliseconds(0));
  continue_stopping();
}

void TargetSession::stop(TargetState state, std::string message, milliseconds patience) {
  attached_->target->request_stop();
  target_pipeline_->slow_to(0);
  attached_->end_state = state;
  attached_->end_message = std::move(message);
  attached_->stops_until = Clock::now() + patience;
  enter(State::kStopping);
}

TargetSession::Attached TargetSession::end_attached(TargetState state, const std::string& message) {
  const int pid = options_.pid;
  if (state == TargetState::kFailed) {
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

void TargetSession::forget() {
  context_.ingest.post([&ingest = context_.ingest, target_pipeline = target_pipeline_] {
    ingest.remove(target_pipeline.get());
  });
}

}  // namespace memprofd
