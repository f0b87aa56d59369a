// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/probe_removal.h"

#include <algorithm>
#include <iterator>

#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

// Removals that ended sessions have left to memprofd. Thread-safe.
class LeftRemovals {
 public:
  bool take(std::vector<std::future<void>>& removals) {
    const MutexLock lock(mutex_);
    erase_closed(left_);
    if (left_.size() + removals.size() > kMaxLeftRemovals) return false;
    std::ranges::move(removals, std::back_inserter(left_));
    removals.clear();
    return true;
  }

 private:
  Mutex mutex_;
  std::vector<std::future<void>> left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void erase_closed(std::vector<std::future<void>>& removals) {
  std::erase_if(removals, [](const std::future<void>& closing) {
    return closing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

bool ProbeRemoval::leave() {
  static LeftRemovals left;
  return left.take(pending_);
}

}  // namespace memprofd
