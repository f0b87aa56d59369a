// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/run_pid.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/run_live.h"
#include "daemon/ctl/run_report.h"
#include "daemon/run/run_program.h"
#include "daemon/run/run_target.h"
#include "daemon/run/running_process.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr ReportWords kWordsOfRunning{"profiled for ", " after the start"};

// Profiles a process from now on, until it ends, a signal comes or the time is over.
class PidRun {
 public:
  // interrupted: set by another thread.
  PidRun(RunningProcess& process, const std::atomic<bool>& interrupted, RunFiles& files,
         const RunOptions& options, double seconds)
      : process_(process),
        interrupted_(interrupted),
        files_(files),
        options_(options),
        seconds_(seconds) {}

  absl::Status run(double rate) {
    RETURN_IF_ERROR(begin(rate));
    const absl::Status followed = follow();
    end();
    note_early_end();
    if (!followed.ok()) {
      const RunFiles dropped(std::move(files_));  // while the target of their threads exists
      return followed;
    }
    const int pid = run_->pid();
    return write_results(*run_, files_, options_.quiet, absl::StrCat(", pid ", pid),
                         kWordsOfRunning);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr std::chrono::milliseconds kPace{5};  // between two readings of the ring
  static constexpr std::chrono::milliseconds kExecPace{100};
  static constexpr std::chrono::seconds kNoteAfter{3};
  // For the first sample, with --for: a busy machine needs seconds to load the agent.
  static constexpr Seconds kPatience{10};

  // Waits until the agent shares its memory.
  absl::Status begin(double rate) {
    for (;;) {
      ASSIGN_OR_RETURN(std::optional<SharedAgent> agent, process_.advance());
      if (agent) {
        ASSIGN_OR_RETURN(run_, RunTarget::attach(programs_, pid(), *std::move(agent), rate));
        if (options_.live) live_.emplace(*run_);
        return absl::OkStatus();
      }
      ended_ = process_.wait(kPace);
      RETURN_IF_ERROR(check_waiting());
    }
  }

  absl::Status follow() {
    absl::Status recording;
    while (!ended_ && !interrupted_ && !is_time_over()) {
      ended_ = process_.wait(kPace);
      replaced_ = !ended_ && was_replaced();
      run_->update();
      if (!run_->problem().empty()) return not_profiled(run_->problem());
      if (run_->begun() && recording.ok()) recording = files_.begin(*run_);
      if (live_) live_->update();
      if (replaced_) break;
      if (run_->sampling()) {
        if (!since_) note_sampling();
        if (!ended_) early_end_ = run_->why_not_sampling();
        if (early_end_.empty()) continue;
        break;
      }
      if (const std::string why = run_->why_not_sampling(); !why.empty()) return not_profiled(why);
      RETURN_IF_ERROR(check_waiting());
      process_.ask_for_collection();
    }
    if (!since_ && !run_->sampling()) RETURN_IF_ERROR(check_waiting());
    return recording;
  }

  void end() {
    if (ended_) {
      run_->finish({});
    } else if (replaced_) {
      run_->finish({.cause = EndCause::kExec});
    } else {
      end_sampling(*run_, process_);
    }
  }

  int pid() const { return process_.target().pid; }
  void note_sampling() {
    since_ = Clock::now();
    if (options_.quiet) return;
    std::fprintf(stderr,
                 "memprofctl: profiling pid %d; Ctrl-C ends that, and the process continues\n",
                 pid());
  }
  void note_early_end() const {
    if (early_end_.empty()) return;
    std::fprintf(stderr, "memprofctl: pid %d %s; sampling ended after %s\n", pid(),
                 early_end_.c_str(), format_duration(run_->sampled_seconds()).c_str());
  }
  bool is_time_over() const {
    return seconds_ > 0 && since_ && Clock::now() - *since_ >= Seconds(seconds_);
  }
  bool was_replaced() {
    if (Clock::now() < next_look_) return false;
    next_look_ = Clock::now() + kExecPace;
    return process_.is_replaced();
  }
  absl::Status not_profiled(const std::string& why) const {
    return absl::FailedPreconditionError(absl::StrCat("not profiled: pid ", pid(), " ", why));
  }
  // Checks the wait for the first sample; an error ends it.
  absl::Status check_waiting() {
    const auto waited = Clock::now() - begun_at_;
    if (ended_ || replaced_) {
      return absl::NotFoundError(absl::StrCat(
          "not profiled: pid ", pid(), replaced_ ? " became another program (exec)" : " ended",
          " before sampling began"));
    }
    if (interrupted_ && waited < kPatience) {
      return not_profiled("was interrupted before sampling began");
    }
    if (interrupted_ || (seconds_ > 0 && waited >= std::max(kPatience, Seconds(seconds_)))) {
      return not_profiled(process_.why_waiting());
    }
    if (!noted_ && waited > kNoteAfter && !options_.quiet) {
      std::fprintf(stderr, "memprofctl: waiting for the next allocation of pid %d\n", pid());
      noted_ = true;
    }
    return absl::OkStatus();
  }

  RunningProcess& process_;
  const std::atomic<bool>& interrupted_;
  RunFiles& files_;
  const RunOptions& options_;
  const double seconds_;  // 0: until it ends
  RunPrograms programs_;
  std::unique_ptr<RunTarget> run_;
  std::optional<LiveFrames> live_;
  std::string early_end_;  // why the session has ended before we ended it; empty: it has not
  bool ended_ = false, replaced_ = false, noted_ = false;
  const Clock::time_point begun_at_ = Clock::now();
  std::optional<Clock::time_point> since_;  // sampling
  Clock::time_point next_look_;
};

}  // namespace

absl::Status profile_running(int pid, const RunOptions& options, const AgentFile& agent,
                             double rate, RunFiles& files) {
  double seconds = 0;
  if (options.duration) {
    ASSIGN_OR_RETURN(seconds, parse_duration(*options.duration));
    if (!(seconds > 0)) return absl::InvalidArgumentError("--for must be above 0, such as 30s");
  }
  std::atomic<bool> interrupted{false};
  Interrupt interrupt;  // before the processes that read the target's memory, which inherit it
  ASSIGN_OR_RETURN(const std::unique_ptr<RunningProcess> process,
                   RunningProcess::inspect(pid, agent));
  interrupt.on_signal([&interrupted] { interrupted = true; });
  return PidRun(*process, interrupted, files, options, seconds).run(rate);
}

}  // namespace memprofd::ctl
