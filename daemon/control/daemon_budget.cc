// SPDX-License-Identifier: Apache-2.0
// What the control thread does for targets whose profiling has a budget of their CPU.
#include "absl/strings/str_cat.h"
#include "daemon/control/daemon.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

// "profiling took 14 % of its CPU, the budget is 1.0 %".
std::string overhead_words(const OverheadInfo& overhead) {
  return absl::StrCat("profiling took ", format_share(overhead.measured, 1),
                      " of its CPU, the budget is ", format_share(overhead.budget, 1));
}

void say_exhausted(int pid, double rate, const OverheadInfo& overhead) {
  spdlog::warn(
      "pid {}: {} even at {}, the lowest that a budget leads to; raise --max-overhead, or detach",
      pid, overhead_words(overhead), format_rate(rate));
}

}  // namespace

absl::Status Daemon::set_budget(Profiled& profiled, const AttachedTarget& target, double share,
                                double rate) {
  if (share == 0) return absl::OkStatus();
  if (target.observes()) {
    spdlog::warn(
        "pid {}: --max-overhead has no effect in observe mode, where minor collections set the "
        "pace",
        target.target().pid);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(profiled.overhead, TargetOverhead::start(share, rate, options_.attach.capture));
  return absl::OkStatus();
}

void Daemon::show_budget(Profiled& profiled) {
  profiled.lane->update_info([&](TargetInfo& info) {
    info.overhead = profiled.overhead->info();
    info.sampling_rate = profiled.overhead->budget().rate();
  });
}

void Daemon::keep_to_budget(Profiled& profiled) {
  if (!profiled.overhead) return;
  using Change = OverheadBudget::Change;
  AttachedTarget& attachment = *profiled.attachment;
  const bool was_exhausted = profiled.overhead->budget().exhausted();
  const Change change =
      profiled.overhead->look(attachment, attachment.kernel(), profiled.lane->signals());
  show_budget(profiled);
  const OverheadInfo now = profiled.overhead->info();
  const double rate = profiled.overhead->budget().rate();
  if (now.exhausted && !was_exhausted && !profiled.said_exhausted) {
    say_exhausted(attachment.target().pid, rate, now);
    profiled.said_exhausted = true;
  }
  if (change == Change::kNone) return;
  profiled.why_rate =
      absl::StrCat(change == Change::kLowered ? ", lowered: " : ", raised: ", overhead_words(now));
  const absl::Status status = start_session(profiled, rate);
  if (!status.ok()) return end(profiled, TargetState::kFailed, std::string(status.message()));
  profiled.sampling = false;
}

}  // namespace memprofd
