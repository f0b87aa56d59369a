// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/ended_targets.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace memprofd {

std::optional<int> next_to_forget(const std::vector<EndedTarget>& ended, std::size_t most,
                                  std::chrono::steady_clock::time_point until) {
  if (ended.empty()) return std::nullopt;
  const auto oldest = std::ranges::min_element(ended, {}, &EndedTarget::ended_at);
  if (oldest->ended_at < until) return oldest->pid;
  if (ended.size() <= most) return std::nullopt;
  std::map<std::optional<uid_t>, std::size_t> of_user;
  for (const EndedTarget& target : ended) ++of_user[target.owner];
  // Chooses the oldest target of the user with the most targets.
  const auto rank = [&](const EndedTarget& target) {
    return std::tuple(ended.size() - of_user[target.owner], target.failed, target.ended_at);
  };
  return std::ranges::min_element(ended, {}, rank)->pid;
}

}  // namespace memprofd
