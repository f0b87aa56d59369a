// SPDX-License-Identifier: Apache-2.0
// The data of the flame graph page (flame_html.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/export/formats/recursion.h"
#include "daemon/history/profile.h"

namespace memprofd {

// Maximum number of nodes; a larger page would be slow.
inline constexpr std::size_t kMaxFlameNodes = 500'000;

// JSON, described as FlameJson in dashboards/web/src/flame/profile.ts: the callstacks of all
// targets merged from the root. With several targets the nodes below the root are "comm (pid N)".
// Bytes are whole numbers whose sums are the totals. Programs in observe mode have allocated memory
// only. Callstacks are truncated as in stack_table.h. If the tree is full, the callstacks with the
// fewest allocated and live bytes end, and are counted, at their innermost function that has a
// node.
std::string flame_json(const std::vector<TargetProfile>& profiles,
                       Recursion recursion = Recursion::kFolded,
                       std::size_t max_nodes = kMaxFlameNodes);

}  // namespace memprofd
