// SPDX-License-Identifier: Apache-2.0
// Identity of a file, from the kernel alone. The file's own server (FUSE, NFS) may never answer, so
// it is not asked to refresh attributes. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace memprofd {

struct FileId {
  std::uint64_t device = 0;  // st_dev of struct stat
  std::uint64_t inode = 0;
  auto operator<=>(const FileId&) const = default;
};

// Identifies an open file; nullopt if the descriptor is invalid.
std::optional<FileId> file_id(int descriptor);
// Identifies the target of a link in /proc/PID, such as exe. Not for other paths: those would query
// their file servers.
std::optional<FileId> file_id(const std::string& path);

}  // namespace memprofd
