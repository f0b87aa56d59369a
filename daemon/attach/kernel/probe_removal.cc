// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/probe_removal.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace memprofd {
namespace {

// All sessions leave theirs here; may be used by several threads at once.
class LeftRemovals {
 public:
  bool has_room_for(std::size_t removals) {
    const std::lock_guard lock(mutex_);
    erase_closed(left_);
    return left_.size() + removals <= kMostLeftRemovals;
  }
  void take(std::vector<std::future<void>>& removals) {
    const std::lock_guard lock(mutex_);
    std::ranges::move(removals, std::back_inserter(left_));
    removals.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::future<void>> left_;
};

LeftRemovals& left_removals() {
  static LeftRemovals left;
  return left;
}

}  // namespace

void erase_closed(std::vector<std::future<void>>& removals) {
  std::erase_if(removals, [](const std::future<void>& closing) {
    return closing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

bool ProbeRemoval::may_leave() const { return left_removals().has_room_for(pending_.size()); }

void ProbeRemoval::leave() { left_removals().take(pending_); }

}  // namespace memprofd
