// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/util/open_files.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// others: the permission bit for other users.
absl::Status check_may(int fd, std::optional<uid_t> user, mode_t others, const std::string& path) {
  struct stat status = {};
  if (!user) return absl::OkStatus();
  if (::fstat(fd, &status) != 0) return file_error(errno, absl::StrCat("cannot open ", path));
  const mode_t needed = status.st_uid == *user ? others << 6 : others;
  if ((status.st_mode & needed) != 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("user ", *user, " may not read ", path));
}

// Opens the file of an O_PATH descriptor.
UniqueFd opened(const UniqueFd& place) {
  return UniqueFd(
      ::open(absl::StrCat("/proc/self/fd/", place.get()).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

absl::StatusOr<UniqueFd> open_regular_file(const std::string& path, const std::string& display_name,
                                           std::uint64_t inode) {
  const std::string action = absl::StrCat("cannot open ", display_name);
  const UniqueFd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat found = {};
  if (!place || ::fstat(place.get(), &found) != 0) return file_error(errno, action);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(display_name, " is not a regular file"));
  }
  if (inode != 0 && found.st_ino != inode) {
    return absl::InvalidArgumentError(absl::StrCat(display_name, " is another file by now"));
  }
  UniqueFd file = opened(place);
  if (!file) return file_error(errno, action);
  return file;
}

absl::StatusOr<UniqueFd> open_as_user(const std::string& path, std::optional<uid_t> user) {
  const std::string action = absl::StrCat("cannot open ", path);
  if (!path.starts_with('/')) return absl::InvalidArgumentError(action + ": a relative path");
  UniqueFd place(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::vector<std::string> names = absl::StrSplit(path, '/', absl::SkipEmpty());
  for (const std::string& name : names) {
    RETURN_IF_ERROR(check_may(place.get(), user, S_IXOTH, path));
    UniqueFd below(::openat(place.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!below) return file_error(errno, action);
    place = std::move(below);
  }
  struct stat found = {};
  if (!place || ::fstat(place.get(), &found) != 0) return file_error(errno, action);
  if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
    return absl::InvalidArgumentError(action + ": it is neither a regular file nor a folder");
  }
  RETURN_IF_ERROR(check_may(place.get(), user, S_IROTH, path));
  UniqueFd file = opened(place);
  if (!file) return file_error(errno, action);
  return file;
}

}  // namespace memprofd
