// SPDX-License-Identifier: Apache-2.0
// Short waits of the control thread for something that a target does within a moment or not at all.
#pragma once

#include <chrono>
#include <thread>

namespace memprofd {

constexpr std::chrono::milliseconds kPollInterval{1};
// Time for the agent to stop at its next callback.
constexpr std::chrono::milliseconds kStopPatience{300};

// Waits until condition() is true or the time is over. Returns true if it became true.
template <typename Condition>
bool wait_for(std::chrono::milliseconds patience, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

}  // namespace memprofd
