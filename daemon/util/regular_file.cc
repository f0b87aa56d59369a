// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "daemon/util/open_files.h"

namespace memprofd {

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
  UniqueFd file(::open(absl::StrCat("/proc/self/fd/", place.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return file_error(errno, action);
  return file;
}

}  // namespace memprofd
