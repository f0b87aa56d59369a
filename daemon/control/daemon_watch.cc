// SPDX-License-Identifier: Apache-2.0
// What the control thread does for each target again and again: bring it to sampling, see
// that it still does, notice its end, its plugins and its children.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/control/daemon.h"
#include "daemon/util/units.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// After this many samples without a capture the capture probe is known not to work.
constexpr std::uint64_t kSelfTestSamples = 64;
constexpr milliseconds kAnnouncePatience{2000};
constexpr milliseconds kKeepAliveInterval{1000};
// How long a target's memory may take to answer.
constexpr std::chrono::seconds kSilentPatience{10};
// Children that are targets at the same time, all parents together.
constexpr int kMaxFollowedChildren = 64;

// One line; empty for a target with an agent.
std::string observe_words(const std::string& why) {
  return why.empty() ? "" : absl::StrCat("observe mode: ", why);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Daemon::tick(Profiled& profiled) {
  note_children(profiled);
  if (has_exited(profiled.attachment->target())) {
    end_exited(profiled);
  } else if (profiled.lane->signals().exec_seen) {
    end(profiled, TargetState::kExited, "the program replaced itself (exec)");
  } else if (const auto& memory = *profiled.attachment->target().memory;
             memory.silent_for() > kSilentPatience) {
    end(profiled, TargetState::kFailed, std::string(memory.silent().message()));
  } else if (!profiled.sampling) {
    advance(profiled);
  } else {
    check_probes(profiled);
    if (profiled.attachment) keep_to_budget(profiled);
  }
  if (profiled.attachment && !profiled.attachment->injecting()) {
    profiled.plugins.follow(profiled.lane->signals().frametables_registered, *profiled.attachment,
                            [queue = queue_] { queue->wake(); });
  }
  if (profiled.attachment) keep_alive(profiled);
}

void Daemon::advance(Profiled& profiled) {
  AttachedTarget& attachment = *profiled.attachment;
  const bool had_agent = attachment.agent() != nullptr;
  const auto progress = attachment.advance();
  if (!had_agent && attachment.agent() != nullptr) {
    ingest_.run([lane = profiled.lane, agent = *attachment.agent()] { lane->set_agent(agent); });
    keep_lease(attachment);
  }
  if (is_no_agent_possible(progress.status()) && profiled.mode == AttachMode::kAuto) {
    observe_instead(profiled, progress.status());
    return;
  }
  if (!progress.ok()) {
    const absl::Status same = check_same_program(attachment.target());
    const bool replaced = absl::IsFailedPrecondition(same);
    const bool gone = absl::IsNotFound(same) || absl::IsNotFound(progress.status());
    end(profiled, gone || replaced ? TargetState::kExited : TargetState::kFailed,
        replaced ? "the program replaced itself (exec) during the attach"
        : gone   ? "the program ended during the attach"
                 : std::string(progress.status().message()));
    return;
  }
  const bool sampling = *progress == AttachedTarget::Progress::kSampling;
  if (sampling && !profiled.sampling) profiled.sampling_since = Clock::now();
  profiled.sampling = sampling;
  profiled.lane->update_info([&](TargetInfo& info) {
    info.state = sampling ? TargetState::kSampling : TargetState::kWaiting;
    info.message = sampling ? observe_words(profiled.why_observed) : attachment.waiting_for();
    info.paused_seconds = attachment.paused_seconds();
    if (sampling && info.attach_seconds == 0) {
      info.attach_seconds = seconds_since(profiled.requested_at);
    }
  });
  if (sampling) {
    spdlog::info("pid {}: sampling {}{}{}", attachment.target().pid, attachment.target().comm,
                 attachment.observes()
                     ? absl::StrCat(", ", observe_words(profiled.why_observed))
                     : absl::StrCat(" at ", format_rate(profiled.lane->info().sampling_rate)),
                 std::exchange(profiled.why_rate, ""));
  }
}

// Some kernels accept a probe that then never fires; trust only what arrives. The
// agent announces each session by the probe; captures come before samples, and are looked
// at after them.
void Daemon::check_probes(Profiled& profiled) {
  if (profiled.attachment->observes()) return;  // a program may allocate nothing for long
  const LaneSignals& signals = profiled.lane->signals();
  const char* silent = nullptr;
  if (signals.batches_seen == 0 && Clock::now() - profiled.sampling_since > kAnnouncePatience) {
    silent = "the agent's probe";
  } else if (signals.alloc_events >= kSelfTestSamples && signals.captures_seen == 0) {
    silent = "the capture probe";
  }
  if (silent == nullptr) return;
  end(profiled, TargetState::kFailed,
      absl::StrCat(silent,
                   " does not fire on this kernel; try another kernel and report this one"));
}

void Daemon::note_children(Profiled& profiled) {
  const TargetInfo info = profiled.lane->info();
  for (const int pid : profiled.lane->take_children()) {
    if (!children_.add({.pid = pid,
                        .parent = info.pid,
                        .exe = info.exe,
                        .rate = info.requested_rate(),
                        .max_overhead = info.overhead.budget,
                        .seen_at = Clock::now()})) {
      leave_alone(info.pid, LeftAlone::kTooManyForks,
                  absl::StrCat("pid ", pid, ": left alone, too many processes are being forked"));
    }
  }
}

// parent: 0 for any.
bool Daemon::looks_at_child_of(int parent) const {
  return std::any_of(openings_.begin(), openings_.end(), [&](const auto& entry) {
    const int forked_from = entry.second.profiled.forked_from;
    return forked_from != 0 && (parent == 0 || forked_from == parent);
  });
}

// One at a time: whoever asks something in between gets an answer.
void Daemon::follow_child() {
  if (looks_at_child_of(0)) return;
  const auto child = children_.next(Clock::now());
  if (!child) return;
  const auto followed = std::count_if(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second.attachment && entry.second.forked_from != 0;
  });
  if (followed >= kMaxFollowedChildren) {
    return leave_alone(child->parent, LeftAlone::kTooManyFollowed,
                       absl::StrCat("pid ", child->pid, ": left alone, ", followed,
                                    " forked children are followed already"));
  }
  AttachAnswer nobody;
  const absl::Status begun = open_target({.pid = child->pid,
                                          .sampling_rate = child->rate,
                                          .follow_forks = true,
                                          .max_overhead = child->max_overhead},
                                         nobody, child->parent);
  if (!begun.ok() && !absl::IsAlreadyExists(begun)) {
    leave_alone(child->parent, LeftAlone::kRefused, std::string(begun.message()));
  }
}

void Daemon::leave_alone(int parent, LeftAlone::Reason reason, const std::string& why) {
  const auto found = targets_.find(parent);
  if (found == targets_.end() || found->second.left_alone.add(reason)) spdlog::warn("{}", why);
}

// The children of its children are heard of through it as long as those are not followed
// themselves: a program that becomes a daemon ends before its grandchild has begun.
void Daemon::end_exited(Profiled& profiled) {
  if (profiled.follow_forks) {
    ingest_.run([lane = profiled.lane] { lane->catch_up(); });
    note_children(profiled);
    const int pid = profiled.attachment->target().pid;
    if (children_.any_of(pid) || looks_at_child_of(pid)) return;
  }
  end(profiled, TargetState::kExited, "the program ended");
}

// Once there is an agent. What is not asked to sample takes no harm.
void Daemon::keep_lease(const AttachedTarget& target) {
  if (target.agent() == nullptr) return;
  const std::shared_ptr<const TargetMemory> memory = target.target().memory;
  leases_.keep(target.target().pid,
               [memory, agent = target.agent()->through(memory->quick())] { (void)agent.renew(); });
}

void Daemon::keep_alive(Profiled& profiled) {
  if (Clock::now() - profiled.kept_alive_at < kKeepAliveInterval) return;
  profiled.kept_alive_at = Clock::now();
  const std::string why_ended = profiled.attachment->keep_alive(profiled.sampling);
  if (why_ended.empty() || has_exited(profiled.attachment->target())) return;
  // Once: a program may stop Memprof again and again.
  if (std::exchange(profiled.why_ended, why_ended) != why_ended) {
    spdlog::warn("pid {}: {}; starting again", profiled.attachment->target().pid, why_ended);
  }
  profiled.sampling = false;
  const absl::Status status = start_session(profiled, profiled.lane->info().sampling_rate);
  if (!status.ok()) end(profiled, TargetState::kFailed, std::string(status.message()));
}

}  // namespace memprofd
