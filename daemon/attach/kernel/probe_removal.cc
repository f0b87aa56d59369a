// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/probe_removal.h"

#include <iterator>
#include <mutex>

namespace memprofd {
namespace {

// Each is a thread that waits for the kernel.
constexpr std::size_t kMostLeft = 256;

// All sessions leave theirs here; may be used by several threads at once.
class LeftRemovals {
 public:
  void take(std::vector<std::future<void>>& removals) {
    const std::lock_guard lock(mutex_);
    erase_closed(left_);
    if (left_.size() + removals.size() > kMostLeft) left_.clear();
    std::ranges::move(removals, std::back_inserter(left_));
    removals.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::future<void>> left_;
};

}  // namespace

void erase_closed(std::vector<std::future<void>>& removals) {
  std::erase_if(removals, [](const std::future<void>& closing) {
    return closing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

void ProbeRemoval::leave() {
  static LeftRemovals left;
  left.take(pending_);
}

}  // namespace memprofd
