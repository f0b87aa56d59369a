// SPDX-License-Identifier: Apache-2.0
// Removes probes in the background. For each link the kernel waits for a grace period, some tens of
// milliseconds in which it does nothing; links that are closed at the same time share it.
#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <system_error>
#include <utility>
#include <vector>

namespace memprofd {

// Maximum number of removals left to memprofd, for all targets; each is a thread that waits for the
// kernel.
inline constexpr std::size_t kMaxLeftRemovals = 256;

// Erases completed removals.
void erase_closed(std::vector<std::future<void>>& removals);

class ProbeRemoval {
 public:
  ~ProbeRemoval() { wait(); }

  // Begins to close what the link owns; the link is empty after.
  template <typename Link>
  void add(Link& link) {
    if (!link) return;
    (void)done();
    auto close = [closed = std::exchange(link, Link())]() mutable { closed = Link(); };
    try {
      pending_.push_back(std::async(std::launch::async, std::move(close)));
    } catch (const std::system_error&) {  // no thread is available: the destructor closes it
    }
  }

  // True if everything that was added is closed.
  bool done() {
    erase_closed(pending_);
    return pending_.empty();
  }
  // Waits until done().
  void wait() { pending_.clear(); }
  // Leaves links that are not closed yet to memprofd, whose end waits for them; false if it has too
  // many already.
  bool leave();

 private:
  std::vector<std::future<void>> pending_;  // their destructors wait
};

}  // namespace memprofd
