// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/writable_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace memprofd {

absl::Status make_writable_directory(const std::string& path, std::string_view contents,
                                     std::string_view option) {
  struct stat status {};
  int number = ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
  if (number == 0 && ::stat(path.c_str(), &status) != 0) number = errno;
  if (number == 0 && !S_ISDIR(status.st_mode)) number = ENOTDIR;
  if (number == 0 && ::access(path.c_str(), W_OK | X_OK) != 0) number = errno;
  if (number == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("cannot write {} into {}: {}; give a directory with {}", contents, path,
                  std::strerror(number), option));
}

}  // namespace memprofd
