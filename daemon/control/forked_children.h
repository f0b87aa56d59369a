// SPDX-License-Identifier: Apache-2.0
// Children of targets that are to become targets, from the fork until they are worth
// looking at. Owned by the control thread.
//
// Many a child runs a command or ends at once. One that is still there after a moment,
// and still runs its parent's program, is meant to stay.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace memprofd {

struct ForkedChild {
  int pid = 0;
  int parent = 0;           // the target
  std::string exe;          // the target's program
  double rate = 0;          // that was asked for it
  double max_overhead = 0;  // its budget, 0: none
  std::chrono::steady_clock::time_point seen_at;
};

class ForkedChildren {
 public:
  static constexpr std::chrono::milliseconds kPatience{100};
  static constexpr std::size_t kMaxWaiting = 4096;

  // False when there are too many already.
  bool add(ForkedChild child);
  // The next one whose time has come and that lives on in its parent's program, to be looked at;
  // none while one is. Those that do not live on are dropped.
  std::optional<ForkedChild> next(std::chrono::steady_clock::time_point now);
  // The look at a child has ended, whatever it found. Any other pid means nothing.
  void look_over(int pid);
  // Whether children of it wait or are looked at.
  bool any_of(int parent) const;
  // Whether none waits.
  bool empty() const { return waiting_.empty(); }

 private:
  std::deque<ForkedChild> waiting_;  // in the order of their coming
  std::optional<ForkedChild> looked_at_;
};

// Whether this process sees pids as the kernel counts them.
bool in_initial_pid_namespace();

}  // namespace memprofd
