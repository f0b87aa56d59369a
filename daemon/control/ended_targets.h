// SPDX-License-Identifier: Apache-2.0
// Chooses the ended target to forget next, so that no user's programs displace all of another
// user's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace memprofd {

struct EndedTarget {
  int pid = 0;
  std::optional<uid_t> owner;  // nullopt: unknown
  std::chrono::steady_clock::time_point ended_at;
  bool failed = false;  // is_failure(): somebody will ask about it
};

// Returns a pid to forget: a program that ended before `until`; otherwise, if there are more than
// `most`, the oldest of the user with the most, those that failed last. nullopt: all may stay.
std::optional<int> next_to_forget(const std::vector<EndedTarget>& ended, std::size_t most,
                                  std::chrono::steady_clock::time_point until);

}  // namespace memprofd
