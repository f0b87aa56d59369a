// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/target_session.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/control/wait_for.h"
#include "daemon/util/status_macros.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// How long an attach request keeps its caller until it answers "waiting".
constexpr milliseconds kAttachPatience{1500};
constexpr milliseconds kRatePatience{500};

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

// Whoever asked for several targets is to know which one an answer is about.
absl::Status about_pid(int pid, const absl::Status& status) {
  if (absl::StrContains(status.message(), absl::StrCat("pid ", pid))) return status;
  return absl::Status(status.code(), absl::StrCat("pid ", pid, ": ", status.message()));
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
  info.mode = attachment.observes() ? TargetMode::kObserve : TargetMode::kAgent;
  info.sampling_rate = attachment.observes() ? 0 : rate;
  return info;
}

}  // namespace

// ---------------------------------------------------------------------- looks

absl::StatusOr<std::unique_ptr<TargetSession>> TargetSession::open(SessionOptions options,
                                                                   const SessionContext& context,
                                                                   TargetSession* before) {
  std::unique_ptr<TargetSession> session(new TargetSession(std::move(options), context));
  const SessionOptions& asked = session->options_;
  RETURN_IF_ERROR(session->look(
      [pid = asked.pid, attach = asked.attach, mode = asked.mode](const std::stop_token& stop) {
        return prepare_target(pid, attach, mode, stop);
      }));
  if (before != nullptr) {
    session->lane_ = before->lane_;
    session->ended_at_ = before->ended_at_;
  }
  return session;
}

TargetSession::~TargetSession() { enter(State::kEnded); }

void TargetSession::enter(State state) {
  if (state_ == State::kLooking) {
    const bool given_up = std::exchange(look_, std::nullopt).has_value();
    context_.children.look_over(options_.pid, given_up);
  }
  state_ = state;
}

absl::Status TargetSession::look(LookFunction look) {
  auto started = TargetLook::start(std::move(look), context_.wake);
  if (!started.ok()) return started.status();
  enter(State::kLooking);
  look_.emplace(*std::move(started));
  return absl::OkStatus();
}

void TargetSession::give_up_look(const absl::Status& why) {
  answer_.give(about_pid(options_.pid, why));
  enter(State::kEnded);
}

absl::Status TargetSession::take_over_look() {
  absl::StatusOr<PreparedTarget> prepared = took_too_long(options_.pid);
  if (look_->done()) prepared = std::exchange(look_, std::nullopt)->take();
  absl::Status begun = prepared.ok() ? begin(*std::move(prepared)) : prepared.status();
  if (!begun.ok())
    give_up_look(why_no_agent_.empty() ? begun : absl::FailedPreconditionError(why_no_agent_));
  return begun;
}

// What the look has found is of use as long as that program runs.
absl::Status TargetSession::begin(PreparedTarget prepared) {
  RETURN_IF_ERROR(check_same_program(prepared.target->target()));
  ASSIGN_OR_RETURN(auto overhead, start_budget(*prepared.target));
  const double rate = overhead ? overhead->budget().rate() : options_.rate;
  left_alone_ = {};
  attached_.emplace();
  attached_->overhead = std::move(overhead);
  use(std::move(prepared), rate);
  enter(State::kWaiting);
  if (absl::Status status = start_session(rate); !status.ok()) {
    end(TargetState::kFailed, std::string(status.message()));
    answer_.give(about_pid(options_.pid, status));
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
  const auto before = std::exchange(
      lane_, std::make_shared<Lane>(attached_->target, attached_->symbolizer, std::move(info)));
  context_.ingest.run([&ingest = context_.ingest, before, lane = lane_] {
    ingest.add(lane);
    if (before) ingest.remove(before.get());
  });
  keep_lease();
}

// The agent is in the program and stays idle: it found that it cannot sample. What the look has
// found is used again.
void TargetSession::observe_instead(const std::string& why_no_agent) {
  Attached before = end_attached(TargetState::kFailed, why_no_agent);
  if (before.target.use_count() != 1) return give_up_look(stands_still(options_.pid));
  why_no_agent_ = why_no_agent;
  const auto found = std::make_shared<FoundProgram>(
      before.target->release_target(), std::move(before.symbolizer), std::move(before.plugins));
  before.target.reset();
  const absl::Status looks =
      look([found, attach = options_.attach, why_no_agent](const std::stop_token&) {
        return prepare_instead(std::move(*found), attach, why_no_agent);
      });
  if (!looks.ok()) give_up_look(absl::FailedPreconditionError(why_no_agent));
}

// -------------------------------------------------------------------- answers

// Its caller hears how far it has come, if it takes long.
void TargetSession::give_answer() {
  if (state_ == State::kLooking || !answer_.awaited()) return;
  if (state_ == State::kWaiting && Clock::now() - requested_at_ < kAttachPatience) return;
  answer_.give(attach_result());
}

absl::StatusOr<TargetInfo> TargetSession::attach_result() const {
  const TargetInfo info = lane_->info();
  if (info.state == TargetState::kFailed) {
    return about_pid(info.pid, absl::FailedPreconditionError(info.message));
  }
  if (info.state == TargetState::kExited) {
    return absl::NotFoundError(absl::StrCat("pid ", info.pid, ": ", info.message));
  }
  return info;
}

// ------------------------------------------------------------------- sessions

absl::Status TargetSession::start_session(double rate) {
  AttachedTarget& target = *attached_->target;
  double requested_rate = rate;
  if (!target.observes()) {
    const std::uint32_t generation = target.next_generation();
    const bool told = context_.ingest.run(
        [lane = lane_, generation, rate] { lane->pipeline().begin_session(generation, rate); });
    if (!told) return stands_still(options_.pid);
  }
  if (attached_->overhead) {
    attached_->overhead->end_window();
    requested_rate = attached_->overhead->budget().ceiling();
  }
  RETURN_IF_ERROR(target.begin(rate, requested_rate));
  lane_->update_info([&](TargetInfo& info) { info.capture = capture_name(target.capture()); });
  return absl::OkStatus();
}

absl::Status TargetSession::set_rate(double rate) {
  if (attached_->target->observes()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pid ", options_.pid,
        " has no sampling rate: it is in observe mode, where minor collections set the "
        "pace (",
        attached_->why_observed, ")"));
  }
  if (attached_->overhead) {
    attached_->overhead->budget().set_ceiling(rate);
    rate = attached_->overhead->budget().rate();
  }
  // A new session would forget the blocks that are followed.
  if (state_ == State::kSampling && lane_->info().sampling_rate == rate) return absl::OkStatus();
  RETURN_IF_ERROR(start_session(rate));
  enter(State::kWaiting);
  lane_->update_info([&](TargetInfo& info) { info.sampling_rate = rate; });
  wait_for(kRatePatience, [&] {
    if (state_ == State::kWaiting) tick();
    return state_ != State::kWaiting;
  });
  return absl::OkStatus();
}

void TargetSession::detach() {
  request_stop();
  wait_for(kStopPatience, [&] { return stopped() || has_exited(attached_->target->target()); });
  end(TargetState::kDetached, "detached on request");
}

// ----------------------------------------------------------------------- ends

void TargetSession::end(TargetState state, const std::string& message) {
  end_attached(state, message);
  enter(State::kEnded);
}

TargetSession::Attached TargetSession::end_attached(TargetState state, const std::string& message) {
  const int pid = options_.pid;
  spdlog::info("pid {}: {}", pid, message);
  context_.leases.drop(pid);
  if (const std::uint64_t unsaid = left_alone_.unsaid(); unsaid != 0) {
    spdlog::info("pid {}: {} more of its children were left alone", pid, unsaid);
  }
  context_.ingest.run([lane = lane_] { lane->catch_up(); });
  attached_->target->detach_probes();
  lane_->update_info([&](TargetInfo& info) {
    info.state = state;
    info.message = message;
    info.paused_seconds = attached_->target->paused_seconds();
  });
  context_.ingest.run([&ingest = context_.ingest, lane = lane_] { ingest.finish(*lane); });
  Attached before = *std::move(attached_);
  attached_.reset();
  ended_at_ = Clock::now();
  return before;
}

void TargetSession::forget() {
  context_.ingest.run([&ingest = context_.ingest, lane = lane_] { ingest.remove(lane.get()); });
}

}  // namespace memprofd
