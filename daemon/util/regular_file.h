// SPDX-License-Identifier: Apache-2.0
// Opens files by names that others can change at any moment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Opens a path for reading if it names a regular file and, unless inode is 0, that inode. The path
// is examined through a descriptor that opens nothing, and exactly that file is then opened:
// opening a device has effects, and a name may mean another file a moment later. kInvalidArgument
// for any other file; kResourceExhausted, kNotFound, ... as of open(2), with the display name.
absl::StatusOr<UniqueFd> open_regular_file(const std::string& path, const std::string& display_name,
                                           std::uint64_t inode = 0);

// Opens a regular file or a folder for reading, by an absolute path in which no link is followed.
// With a user, only files that the user may reach and read, as owner or as anybody; groups do not
// count. So no user can read through a process with more rights what that user could not read.
// kPermissionDenied: not readable; kInvalidArgument: a link, a device, a relative path; otherwise
// as above.
absl::StatusOr<UniqueFd> open_as_user(const std::string& path, std::optional<uid_t> user);

}  // namespace memprofd
