// SPDX-License-Identifier: Apache-2.0
// Opens files under names that others can change at any moment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Opens a path for reading if it names a regular file and, unless inode is 0, that inode. Examines
// the path through an O_PATH descriptor and then opens exactly that file, because opening a device
// has side effects and a name may refer to another file a moment later. kInvalidArgument for any
// other file; kResourceExhausted, kNotFound, ... as for open(2), with the display name.
absl::StatusOr<UniqueFd> open_regular_file(const std::string& path, const std::string& display_name,
                                           std::uint64_t inode = 0);

// Opens a regular file or a folder for reading, by an absolute path in which no link is followed.
// With a user, opens only files that this user may reach and read, as owner or as others; groups
// are ignored. So a user cannot read through a more privileged process what they could not read
// themselves. kPermissionDenied: not readable; kInvalidArgument: a link, a device, a relative path;
// otherwise as above.
absl::StatusOr<UniqueFd> open_as_user(const std::string& path, std::optional<uid_t> user);

}  // namespace memprofd
