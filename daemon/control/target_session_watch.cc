// SPDX-License-Identifier: Apache-2.0
// Periodic work of a session: start sampling, check that the target still samples, keep it within
// its budget, and detect its plugins, its children and its end.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/attach/budget/rate_limit_text.h"
#include "daemon/control/target_session.h"
#include "daemon/control/wait_for.h"
#include "daemon/discover/process_owner.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

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

// True if no check is due: the program has not run and its ring has no new records, so nothing can
// have changed. Other work is due once a second.
bool TargetSession::at_rest() {
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

void TargetSession::tick() {
  watch();
  keep_pace();
}

void TargetSession::tick_when_due() {
  if (at_rest()) return keep_pace();
  tick();
}

void TargetSession::keep_pace() {
  const auto now = Clock::now();
  if (state_ == State::kStopping) return pace_.ticked_stopping(now);
  if (state_ == State::kWaiting) return pace_.ticked_waiting(now);
  pace_.ticked_steady(now);
}

void TargetSession::watch() {
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
void TargetSession::find_owner() {
  const auto owner = target_pipeline_->info().owner;
  if (!owner || Clock::now() - attached_->owner_seen_at < kOwnerInterval) return;
  attached_->owner_seen_at = Clock::now();
  const auto process = memprofd::find_owner(ProcFs(), options_.pid);
  if (!process.ok() || process->has_ended || process->owner == owner) return;
  target_pipeline_->update_info([](TargetInfo& info) { info.owner = std::nullopt; });
}

void TargetSession::continue_stopping() {
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

void TargetSession::advance() {
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
    return end_attach(absl::FailedPreconditionError(target.why_no_agent()));
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
void TargetSession::end_attach(const absl::Status& why) {
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
std::string TargetSession::sampling_text() const {
  std::string observe = observe_text(attached_->why_observed);
  if (!attached_->why_no_native_heap.empty())
    absl::StrAppend(&observe, "; the native heap is not followed: ", attached_->why_no_native_heap);
  if (attached_->slowed) {
    return absl::StrCat(observe, observe.empty() ? "" : "; ",
                        "read slowly, with losses, as memprofd may take no more CPU (--cpu.max)");
  }
  if (!attached_->overhead) return observe;
  return rate_limit_text(attached_->overhead->budget(), attached_->target->capture(),
                         options_.attach.capture, attached_->cpu.cores());
}

void TargetSession::show_progress() {
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
void TargetSession::check_probes() {
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

void TargetSession::note_children() {
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
void TargetSession::end_exited() {
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

void TargetSession::end_program(const ProgramEnd& how, const char* when) {
  attached_->how_ended = how;
  end(TargetState::kExited, absl::StrCat(end_text(how), when));
}

// Starts renewing the lease if there is an agent. A lease has no effect on an agent that was not
// asked to sample.
void TargetSession::keep_lease() {
  const AttachedTarget& target = *attached_->target;
  if (target.agent() == nullptr) return;
  const std::shared_ptr<const TargetMemory> memory = target.target().memory;
  std::optional<NativeHeapControl> native_heap;
  if (target.native_heap() != nullptr) native_heap = target.native_heap()->through(memory->quick());
  context_.leases.keep(options_.pid,
                       [memory, native_heap, agent = target.agent()->through(memory->quick())] {
                         if (native_heap) native_heap->inspect_filters();
                         (void)agent.renew();
                       });
}

void TargetSession::keep_alive() {
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

// Observe mode: reports whether probes follow the native heap. They are removed if they cost too
// much.
void TargetSession::watch_native_heap() {
  AttachedTarget& target = *attached_->target;
  target.watch_native_heap();
  if (!target.observes()) return;
  const bool follows = target.follows_native_heap();
  const std::string why_not = target.why_no_native_heap();
  if (follows == attached_->probes_native_heap && why_not == attached_->why_no_native_heap) return;
  if (follows)
    log_info("pid {}: the native heap is followed by probes at malloc and free", options_.pid);
  if (!why_not.empty())
    log_warning("pid {}: the native heap is not followed: {}", options_.pid, why_not);
  if (!follows && attached_->probes_native_heap)
    context_.ingest.post(
        [target_pipeline = target_pipeline_] { target_pipeline->end_native_heap(); });
  attached_->probes_native_heap = follows;
  attached_->why_no_native_heap = why_not;
  target_pipeline_->update_info([&](TargetInfo& info) {
    info.asked.native_heap_interval = follows ? options_.attach.native_heap_interval : 0;
    if (state_ == State::kSampling) info.message = sampling_text();
  });
}

// ------------------------------------------------------------------- overhead

void TargetSession::show_overhead() {
  TargetOverhead& overhead = *attached_->overhead;
  target_pipeline_->update_info([&](TargetInfo& info) {
    info.overhead = overhead.info();
    info.overhead.memprofd_cores = attached_->cpu.cores();
    info.sampling_rate = overhead.budget().rate();
    if (state_ == State::kSampling) info.message = sampling_text();
    info.paused_seconds = attached_->target->paused_seconds();  // a snapshot adds to this
  });
}

std::string TargetSession::why_changed(OverheadBudget::Change change, bool was_held) const {
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

void TargetSession::keep_to_budget() {
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

CpuBound::Target TargetSession::cpu_taken() {
  const std::uint64_t now_ns = target_pipeline_->signals().ingest_ns;
  const std::uint64_t ns = now_ns - std::exchange(attached_->cpu_ns, now_ns);
  return {.use = &attached_->cpu,
          .cpu_seconds = static_cast<double>(ns) * 1e-9,
          .held = attached_->overhead && attached_->overhead->budget().held(),
          .behind = Clock::now() - target_pipeline_->signals().consumed_until.load() > kBehind};
}

void TargetSession::limit_cpu(double limit) {
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

void TargetSession::log_slowed(bool slowed) const {
  if (!slowed) return log_info("pid {}: its events are read without delay again", options_.pid);
  log_warning(
      "pid {}: its events took {} of a processor, --cpu.max leaves {}: they are read no faster, "
      "and some are lost (memprofd_dropped_events_total); raise --cpu.max, or detach",
      options_.pid, format_share(attached_->cpu.cores(), 1), format_share(attached_->cpu_limit, 1));
}

// Starts a session like the current one, at this rate; ends the attach if that is impossible.
void TargetSession::start_again(double rate) {
  const absl::Status status = start_session(rate);
  if (!status.ok()) return end(TargetState::kFailed, std::string(status.message()));
  enter(State::kWaiting);
}

}  // namespace memprofd
