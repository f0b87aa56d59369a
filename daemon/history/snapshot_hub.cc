// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/snapshot_hub.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "daemon/history/snapshot.h"

namespace memprofd {

std::uint64_t SnapshotHub::ask() {
  const std::uint64_t request_number = asked_.fetch_add(1) + 1;
  if (wake_up_) wake_up_();
  return request_number;
}

bool SnapshotHub::wait_for(std::uint64_t request_number, Clock::time_point until) {
  while (answered_ < request_number && published_.wait_until(mutex_, until)) {
  }
  return answered_ >= request_number;
}

ProfileSnapshotPtr SnapshotHub::find(int pid) const {
  const auto found = std::ranges::find_if(
      snapshots_, [pid](const ProfileSnapshotPtr& one) { return one->info.pid == pid; });
  return found == snapshots_.end() ? nullptr : *found;
}

std::optional<std::vector<ProfileSnapshotPtr>> SnapshotHub::fresh_in_time(
    std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  const std::uint64_t request_number = ask();
  const MutexLock lock(mutex_);
  if (!wait_for(request_number, until)) return std::nullopt;
  return snapshots_;
}

absl::StatusOr<ProfileSnapshotPtr> SnapshotHub::fresh_of(int pid, std::chrono::milliseconds timeout,
                                                         std::chrono::milliseconds time_for_new) {
  const auto began = Clock::now();
  const std::uint64_t request_number = ask();
  const MutexLock lock(mutex_);
  bool is_fresh = wait_for(request_number, began + timeout);
  if (!is_fresh && find(pid) == nullptr) is_fresh = wait_for(request_number, began + time_for_new);
  if (auto found = find(pid)) return found;
  if (is_fresh) {
    return absl::NotFoundError(
        absl::StrCat("pid ", pid, " is not a target; `memprofctl targets` lists them"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("memprofd is overloaded or stands still, see its log: it has not summed up its "
                   "targets for ",
                   time_for_new.count() / 1000, " s, and pid ", pid,
                   " was not among them before; ask again later"));
}

std::vector<ProfileSnapshotPtr> SnapshotHub::fresh(std::chrono::milliseconds timeout) {
  auto snapshots = fresh_in_time(timeout);
  return snapshots ? *std::move(snapshots) : latest();
}

void SnapshotHub::mark_moment(std::chrono::milliseconds timeout) {
  const std::uint64_t number = ++marks_wanted_;
  const MutexLock lock(marking_);
  if (marks_made_ >= number) return;  // made meanwhile by another caller
  std::this_thread::sleep_until(next_mark_);
  const std::uint64_t wanted = marks_wanted_;
  mark_ = true;
  if (!fresh_in_time(timeout)) return;
  marks_made_ = wanted;
  next_mark_ = Clock::now() + kMinWindow;
}

std::vector<ProfileSnapshotPtr> SnapshotHub::latest() const {
  const MutexLock lock(mutex_);
  return snapshots_;
}

bool SnapshotHub::wanted() {
  seen_ = asked_.load();
  const MutexLock lock(mutex_);
  return seen_ > answered_;
}

void SnapshotHub::publish(std::vector<ProfileSnapshotPtr> snapshots) {
  std::sort(snapshots.begin(), snapshots.end(),
            [](const auto& a, const auto& b) { return a->info.pid < b->info.pid; });
  {
    const MutexLock lock(mutex_);
    std::swap(snapshots_, snapshots);
    answered_ = seen_;
  }
  published_.notify_all();
  // Destroys the old publication here, outside the lock.
}

}  // namespace memprofd
