// SPDX-License-Identifier: Apache-2.0
// The agent for a process that does not see its file: a copy in memory that belongs to
// the process, so that nothing is written into its file system.
//
// The process is not trusted: it may hold anything under the number, or the name, of that copy. So
// nothing of it is opened by name. Its descriptor itself is taken over, with exactly the rights
// that the process has in it, and the file behind that descriptor is checked before a byte is
// written.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Name of the copy in the process, and in its mappings.
inline constexpr std::string_view kAgentMemfdName = "memprof_agent";
inline constexpr std::string_view kAgentMemfdMapping = "/memfd:memprof_agent (deleted)";

// A variant of that path under which no file is loaded in a process that holds this number of
// agents: the dynamic linker identifies files by name, even if the file of that name has been
// replaced since.
std::string name_beside(std::string path, std::size_t agents);

// True if a path names the same file for the process as for us, and its mappings show it under that
// path.
bool sees_file(const ProcFs& proc, int pid, const std::string& path);

// kFailedPrecondition with the remedy when the process cannot open its own descriptors
// by name: nothing is mounted at /proc inside.
absl::Status check_proc_inside(const ProcFs& proc, int pid);

// The contents of a file, to be copied later without disk access.
absl::StatusOr<std::vector<std::byte>> read_whole_file(const std::string& path);

// Our own descriptor for a descriptor number in a thread of another process: the same open file,
// with the same rights. Nothing is opened. Needs the right to trace the process. Before Linux 6.9
// the number is looked up in the process's first thread.
absl::StatusOr<UniqueFd> take_descriptor(int tid, int process_pidfd, int number);

// True if the process may open another file, or if that cannot be determined.
bool has_free_descriptor(const ProcFs& proc, int pid);

// kFailedPrecondition unless it is a memfd as a process has just created it to be sealed: empty,
// without a name in any file system, without seals, open for reading and writing.
absl::Status check_fresh_memfd(int fd);

// Writes the agent into such a memfd and seals it: no process can change it any more. Fails
// when it holds anything else then, as when another process wrote to it meanwhile.
absl::Status fill_memfd(int fd, std::span<const std::byte> contents);

// True if both descriptors refer to the same file; if a mapping belongs to it.
bool same_file(int a, int b);
bool is_mapping_of(const Mapping& mapping, int fd);

}  // namespace memprofd
