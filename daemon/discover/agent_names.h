// SPDX-License-Identifier: Apache-2.0
// Names by which the agent is recognized in a process whose files cannot be opened.
#pragma once

#include <string_view>

namespace memprofd {

inline constexpr std::string_view kAgentName = "libmemprof_agent.so";
// Of a copy in the process, and in its mappings.
inline constexpr std::string_view kAgentMemfdName = "memprof_agent";
inline constexpr std::string_view kAgentMemfdMapping = "/memfd:memprof_agent (deleted)";

}  // namespace memprofd
