// SPDX-License-Identifier: Apache-2.0
// Resumes the targets of the previous memprofd. All are shown as they were; those whose program
// still runs are attached again, a few at a time, and continue.
#include <algorithm>
#include <utility>

#include "daemon/control/daemon.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/state/moment_records.h"
#include "daemon/util/clock.h"
#include "daemon/util/file_id.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

// Number of inspections at the same time.
constexpr int kLooksAtOnce = 8;

// True if it was being profiled, and still may be.
bool still_runs(const StoredTarget& stored) {
  const TargetInfo& info = stored.snapshot->info;
  const ProcFs proc;
  const auto start_time = proc.start_time(info.pid);
  return info.is_asked && !stored.boot_id.empty() && stored.boot_id == boot_id() &&
         start_time.ok() && *start_time == info.program.start_time_ticks && proc.exists(info.pid);
}

TargetSnapshotPtr with_state(const TargetSnapshot& snapshot, TargetState state, const char* message,
                             bool is_asked) {
  auto copy = std::make_shared<TargetSnapshot>(snapshot);
  copy->info.state = state;
  copy->info.message = message;
  copy->info.is_asked = is_asked;
  return copy;
}

}  // namespace

// Before the control thread runs.
void Daemon::show_stored() {
  std::size_t all = 0;
  for (const StoredTarget& stored : state_->take_stored()) {
    ++all;
    TargetSnapshotPtr snapshot = stored.snapshot;
    auto ended_at = Clock::now() - snapshot->age(realtime_ns());
    if (still_runs(stored)) {
      going_on_.insert(snapshot->info.pid);
      to_go_on_.push_back(snapshot);
      snapshot = with_state(*snapshot, TargetState::kWaiting,
                            "resuming after a restart of memprofd: inspecting the program", true);
    } else if (snapshot->info.is_asked) {
      ended_at = Clock::now();
      snapshot = with_state(*snapshot, TargetState::kExited,
                            "the program ended while memprofd did not run", false);
    }
    targets_[snapshot->info.pid] = TargetSession::of_ended(snapshot, ended_at, context_);
  }
  if (all == 0) return;
  log_info("state: {} targets of an earlier memprofd, {} of them still run", all, to_go_on_.size());
}

void Daemon::go_on_with_next() {
  auto looks = std::count_if(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second->state() == TargetSession::State::kLooking;
  });
  for (; !to_go_on_.empty() && looks < kLooksAtOnce; ++looks) {
    const TargetSnapshotPtr next = to_go_on_.front();
    to_go_on_.pop_front();
    const TargetInfo& info = next->info;
    const absl::Status begun = open_target(info.asked, info.forked_from,
                                           std::make_shared<ForkFamily>(info.asked.user), next)
                                   .status();
    if (absl::IsResourceExhausted(begun)) {
      to_go_on_.push_front(next);
      return;
    }
    if (!begun.ok()) targets_[info.pid]->cannot_go_on(begun);
  }
}

std::deque<TargetSnapshotPtr>::const_iterator Daemon::waiting_to_go_on(int pid) const {
  return std::find_if(to_go_on_.begin(), to_go_on_.end(),
                      [pid](const TargetSnapshotPtr& waiting) { return waiting->info.pid == pid; });
}

// Returns true if it was waiting.
absl::StatusOr<bool> Daemon::give_up_going_on(const AskedProcess& process) {
  const auto waiting = waiting_to_go_on(process.pid);
  if (waiting == to_go_on_.end()) return false;
  const TargetInfo& info = (*waiting)->info;
  RETURN_IF_ERROR(check_is_meant(process, info.program.start_time_ticks, info.owner));
  to_go_on_.erase(waiting);
  targets_[process.pid]->cannot_go_on(absl::CancelledError("detached on request"));
  return true;
}

std::unique_ptr<TargetSession> TargetSession::of_ended(
    TargetSnapshotPtr snapshot, std::chrono::steady_clock::time_point ended_at,
    const SessionContext& context) {
  std::unique_ptr<TargetSession> session(new TargetSession(
      {.pid = snapshot->info.pid, .forked_from = snapshot->info.forked_from}, context));
  session->ended_at_ = ended_at;
  session->lane_ = std::make_shared<Lane>(std::move(snapshot));
  context.ingest.post([&ingest = context.ingest, lane = session->lane_] { ingest.add(lane); });
  return session;
}

void TargetSession::cannot_go_on(const absl::Status& why) {
  goes_on_from_ = nullptr;
  if (!absl::IsAborted(why)) log_warning("{}", std::string(about(why).message()));
  lane_->update_info([&](TargetInfo& info) {
    const bool detached = absl::IsAborted(why) || absl::IsCancelled(why);
    info.state = detached                ? TargetState::kDetached
                 : absl::IsNotFound(why) ? TargetState::kExited
                                         : TargetState::kFailed;
    info.message = std::string(why.message());
    info.is_asked = !absl::IsCancelled(why) && !absl::IsNotFound(why);
  });
}

// The path says less: it changes when the file is replaced, and need not when the program is.
ProgramIdentity TargetSession::identity_of(const Target& target) {
  return {.start_time_ticks = target.start_time_ticks,
          .file = file_id(target.program_file->get()).value_or(FileId()),
          .load_bias = target.load_bias};
}

absl::Status TargetSession::check_goes_on(const Target& target) const {
  if (goes_on_from_ == nullptr || goes_on_from_->info.program == identity_of(target)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      "the program was replaced (exec) while memprofd did not run; attach to it again");
}

}  // namespace memprofd
