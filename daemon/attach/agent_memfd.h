// The agent for a process that does not see its file: a copy in memory that belongs to
// the process, so that nothing is written into its file system.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

// What the process calls the copy, and what its mappings say then.
inline constexpr std::string_view kAgentMemfdName = "memprof_agent";
inline constexpr std::string_view kAgentMemfdMapping = "/memfd:memprof_agent (deleted)";

// Whether a path names the same file for the process as for us, and its mappings
// show it under that path.
bool sees_file(const ProcFs& proc, int pid, const std::string& path);

// kFailedPrecondition with the remedy when the process cannot open its own descriptors
// by name: nothing is mounted at /proc inside.
absl::Status check_proc_inside(const ProcFs& proc, int pid);

// The descriptor of an empty memfd of that name in the process. kNotFound: has none.
absl::StatusOr<int> find_agent_memfd(const ProcFs& proc, int pid);

// Copies the file into the memfd that `path` opens, and seals it: no process can
// change it any more.
absl::Status fill_agent_memfd(const std::string& path, const std::string& agent_file);

}  // namespace memprofd
