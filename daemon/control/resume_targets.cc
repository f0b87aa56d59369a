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
constexpr int kInspectionsAtOnce = 8;

// True if it was profiled and may still be running.
bool still_runs(const StoredTarget& stored) {
  const TargetInfo& info = stored.snapshot->info;
  const ProcFs proc;
  const auto start_time = proc.start_time(info.pid);
  return info.is_asked && !stored.boot_id.empty() && stored.boot_id == boot_id() &&
         start_time.ok() && *start_time == info.program.start_time_ticks && proc.exists(info.pid);
}

ProfileSnapshotPtr with_state(const ProfileSnapshot& snapshot, TargetState state,
                              const char* message, bool is_asked) {
  auto copy = std::make_shared<ProfileSnapshot>(snapshot);
  copy->info.state = state;
  copy->info.message = message;
  copy->info.is_asked = is_asked;
  return copy;
}

}  // namespace

// Runs before the control thread starts.
void Daemon::show_stored() {
  std::size_t all = 0;
  for (const StoredTarget& stored : state_->take_stored()) {
    ++all;
    ProfileSnapshotPtr snapshot = stored.snapshot;
    auto ended_at = Clock::now() - snapshot->age(realtime_ns());
    if (still_runs(stored)) {
      resuming_.insert(snapshot->info.pid);
      to_resume_.push_back(snapshot);
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
  log_info("state: {} targets of an earlier memprofd, {} of them still run", all,
           to_resume_.size());
}

void Daemon::resume_next() {
  auto inspections = std::count_if(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second->state() == TargetSession::State::kInspecting;
  });
  for (; !to_resume_.empty() && inspections < kInspectionsAtOnce; ++inspections) {
    const ProfileSnapshotPtr next = to_resume_.front();
    to_resume_.pop_front();
    const TargetInfo& info = next->info;
    const absl::Status begun = open_target(info.asked, info.forked_from,
                                           std::make_shared<ForkFamily>(info.asked.user), next)
                                   .status();
    if (absl::IsResourceExhausted(begun)) {
      to_resume_.push_front(next);
      return;
    }
    if (!begun.ok()) targets_[info.pid]->cannot_resume(begun);
  }
}

std::deque<ProfileSnapshotPtr>::const_iterator Daemon::waiting_to_resume(int pid) const {
  return std::find_if(
      to_resume_.begin(), to_resume_.end(),
      [pid](const ProfileSnapshotPtr& waiting) { return waiting->info.pid == pid; });
}

// Returns true if the target was waiting to be resumed.
absl::StatusOr<bool> Daemon::cancel_resume(const AskedProcess& process) {
  const auto waiting = waiting_to_resume(process.pid);
  if (waiting == to_resume_.end()) return false;
  const TargetInfo& info = (*waiting)->info;
  RETURN_IF_ERROR(check_is_meant(process, info.program.start_time_ticks, info.owner));
  to_resume_.erase(waiting);
  targets_[process.pid]->cannot_resume(absl::CancelledError("detached on request"));
  return true;
}

std::unique_ptr<TargetSession> TargetSession::of_ended(
    ProfileSnapshotPtr snapshot, std::chrono::steady_clock::time_point ended_at,
    const SessionContext& context) {
  std::unique_ptr<TargetSession> session(new TargetSession(
      {.pid = snapshot->info.pid, .forked_from = snapshot->info.forked_from}, context));
  session->ended_at_ = ended_at;
  session->target_pipeline_ = std::make_shared<TargetPipeline>(std::move(snapshot));
  context.ingest.post([&ingest = context.ingest, target_pipeline = session->target_pipeline_] {
    ingest.add(target_pipeline);
  });
  return session;
}

void TargetSession::cannot_resume(const absl::Status& why) {
  resumes_from_ = nullptr;
  if (!absl::IsAborted(why)) log_warning("{}", std::string(about(why).message()));
  target_pipeline_->update_info([&](TargetInfo& info) {
    const bool detached = absl::IsAborted(why) || absl::IsCancelled(why);
    info.state = detached                ? TargetState::kDetached
                 : absl::IsNotFound(why) ? TargetState::kExited
                                         : TargetState::kFailed;
    info.message = std::string(why.message());
    info.is_asked = !absl::IsCancelled(why) && !absl::IsNotFound(why);
  });
}

// The path does not identify a program: it changes when the file is replaced, and may be the same
// after the program has changed.
ProgramIdentity TargetSession::identity_of(const Target& target) {
  return {.start_time_ticks = target.start_time_ticks,
          .file = file_id(target.program_file->get()).value_or(FileId()),
          .load_bias = target.load_bias};
}

absl::Status TargetSession::check_resumes(const Target& target) const {
  if (resumes_from_ == nullptr || resumes_from_->info.program == identity_of(target)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      "the program was replaced (exec) while memprofd did not run; attach to it again");
}

}  // namespace memprofd
