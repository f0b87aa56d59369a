// SPDX-License-Identifier: Apache-2.0
// Waits of tests for what others do meanwhile: for the thing itself, however long a busy machine
// takes.
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
