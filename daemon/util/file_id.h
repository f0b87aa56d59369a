// SPDX-License-Identifier: Apache-2.0
// Identity of a file, from the kernel alone: the file's own server (FUSE, NFS), which may never
// answer, is not asked to refresh attributes. So any thread may call this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace memprofd {

struct FileId {
  std::uint64_t device = 0;  // as in struct stat
  std::uint64_t inode = 0;
  auto operator<=>(const FileId&) const = default;
};

// Identifies an open file. Nothing when the descriptor is none.
std::optional<FileId> file_id(int descriptor);
// Identity of the target of a link in /proc/PID, such as exe: other paths ask their file servers.
std::optional<FileId> file_id(const std::string& path);

}  // namespace memprofd
