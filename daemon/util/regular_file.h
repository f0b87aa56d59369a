// SPDX-License-Identifier: Apache-2.0
// Opens files by names that somebody else can change at any moment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Opens what path names for reading, if it is a regular file and, where inode is not 0, that one.
// It is looked at through a descriptor that opens nothing, and that very file is opened then:
// opening a device does something, and a name may mean another file a moment later.
// kInvalidArgument when it is another file; kResourceExhausted, kNotFound, ... as of open(2), with
// the display name.
absl::StatusOr<UniqueFd> open_regular_file(const std::string& path, const std::string& display_name,
                                           std::uint64_t inode = 0);

// Opens a regular file or a folder for reading, by an absolute path in which no link is followed.
// Where a user is given, only what he may get at and read, as the owner or as anybody: groups are
// not asked. So nobody learns by a process with more rights what he could not read himself.
// kPermissionDenied: he may not; kInvalidArgument: a link, a device, a relative path; else as
// above.
absl::StatusOr<UniqueFd> open_as_user(const std::string& path, std::optional<uid_t> user);

}  // namespace memprofd
