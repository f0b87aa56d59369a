// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/snapshot_hub.h"

#include <algorithm>
#include <utility>

namespace memprofd {

std::optional<std::vector<TargetSnapshotPtr>> SnapshotHub::fresh_in_time(
    std::chrono::milliseconds timeout) {
  const std::uint64_t ticket = asked_.fetch_add(1) + 1;
  if (wake_up_) wake_up_();
  std::unique_lock lock(mutex_);
  if (!published_.wait_for(lock, timeout, [&] { return answered_ >= ticket; })) return std::nullopt;
  return snapshots_;
}

std::vector<TargetSnapshotPtr> SnapshotHub::fresh(std::chrono::milliseconds timeout) {
  auto snapshots = fresh_in_time(timeout);
  return snapshots ? *std::move(snapshots) : latest();
}

void SnapshotHub::mark_moment(std::chrono::milliseconds timeout) {
  mark_ = true;
  fresh_in_time(timeout);
}

std::vector<TargetSnapshotPtr> SnapshotHub::latest() const {
  std::lock_guard lock(mutex_);
  return snapshots_;
}

bool SnapshotHub::wanted() {
  seen_ = asked_.load();
  std::lock_guard lock(mutex_);
  return seen_ > answered_;
}

void SnapshotHub::publish(std::vector<TargetSnapshotPtr> snapshots) {
  std::sort(snapshots.begin(), snapshots.end(),
            [](const auto& a, const auto& b) { return a->info.pid < b->info.pid; });
  {
    std::lock_guard lock(mutex_);
    std::swap(snapshots_, snapshots);
    answered_ = seen_;
  }
  published_.notify_all();
  // The old publication ends here, outside the lock.
}

}  // namespace memprofd
