// SPDX-License-Identifier: Apache-2.0
// Provides the agent to a process that does not see its file: as a copy in a memfd of the process,
// so that nothing is written to its file system.
//
// The process is not trusted: any file may be behind the copy's descriptor number or name. So
// nothing is opened by name. memprofd duplicates the descriptor itself, with exactly the rights
// that the process has in it, and checks the file before it writes a byte.
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

// A variant of that path under which a process that holds `agents` agents has loaded no file yet.
// The dynamic linker identifies files by name, even if the file of that name has been replaced
// since.
std::string name_beside(std::string path, std::size_t agents);

// True if a path names the same file for the process as for us, and its mappings show it under that
// path.
bool sees_file(const ProcFs& proc, int pid, const std::string& path);

// kFailedPrecondition, with the remedy, if the process cannot open its own descriptors by name
// because /proc is not mounted in its namespace.
absl::Status check_proc_inside(const ProcFs& proc, int pid);

// The contents of a file, to be copied later without disk access.
absl::StatusOr<std::vector<std::byte>> read_whole_file(const std::string& path);

// Our own descriptor for a descriptor number in a thread of another process: the same open file,
// with the same rights. Nothing is opened. Needs the right to trace the process. Before Linux 6.9
// the number is looked up in the process's first thread.
absl::StatusOr<UniqueFd> take_descriptor(int tid, int process_pidfd, int number);

// True if the process may open another file, or if that cannot be determined.
bool has_free_descriptor(const ProcFs& proc, int pid);

// kFailedPrecondition unless it is a fresh memfd that can be sealed: empty, without a name in any
// file system, without seals, open for reading and writing.
absl::Status check_fresh_memfd(int fd);

// Writes the agent into such a memfd and seals it, so that no process can change it any more. Fails
// if the contents differ afterwards, for example because another process wrote to it meanwhile.
absl::Status fill_memfd(int fd, std::span<const std::byte> contents);

// True if both descriptors refer to the same file.
bool same_file(int a, int b);
bool is_mapping_of(const Mapping& mapping, int fd);

}  // namespace memprofd
