// SPDX-License-Identifier: Apache-2.0
// How the control thread waits for what a target does in a moment or not at all.
#pragma once

#include <chrono>
#include <thread>

namespace memprofd {

constexpr std::chrono::milliseconds kPollInterval{1};
// How long the agent may take to stop at its next callback.
constexpr std::chrono::milliseconds kStopPatience{300};

// Until condition() or the deadline; true when the condition came.
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
