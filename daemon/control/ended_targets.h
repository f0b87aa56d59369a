// SPDX-License-Identifier: Apache-2.0
// Which of the targets that have ended is forgotten next: nobody's programs drive out all of
// another's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace memprofd {

struct EndedTarget {
  int pid = 0;
  std::optional<uid_t> owner;  // nothing: not known
  std::chrono::steady_clock::time_point ended_at;
};

// Its pid: one that ended before `until`, else, where there are more than so many, the oldest of
// the user who has most of them. Nothing: all may stay.
std::optional<int> next_to_forget(const std::vector<EndedTarget>& ended, std::size_t most,
                                  std::chrono::steady_clock::time_point until);

}  // namespace memprofd
