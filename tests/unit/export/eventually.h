// SPDX-License-Identifier: Apache-2.0
// Waits for conditions that other threads or processes bring about; a busy machine may be slow.
#pragma once

#include <chrono>
#include <thread>

namespace memprofd::testing {

// Polls until the condition holds; false after the timeout.
template <typename Condition>
bool eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace memprofd::testing
