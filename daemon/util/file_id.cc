// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/file_id.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace memprofd {
namespace {

std::optional<FileId> stat_file(int descriptor, const char* path, int flags) {
  struct statx info {};
  if (::statx(descriptor, path, flags | AT_STATX_DONT_SYNC, STATX_INO, &info) != 0) return {};
  return FileId{makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino};
}

}  // namespace

std::optional<FileId> file_id(int descriptor) { return stat_file(descriptor, "", AT_EMPTY_PATH); }

std::optional<FileId> file_id(const std::string& path) {
  return stat_file(AT_FDCWD, path.c_str(), 0);
}

}  // namespace memprofd
