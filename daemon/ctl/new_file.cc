// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/output.h"

namespace memprofd::ctl {
namespace {

constexpr char kEnding[] = ".XXXXXX.part";
constexpr int kAfterRandom = 5;  // ".part"

}  // namespace

absl::StatusOr<NewFile> NewFile::create(std::string path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": it is there and no regular file; name another"));
  }
  std::string temporary = path + kEnding;
  UniqueFd file(::mkostemps(temporary.data(), kAfterRandom, O_CLOEXEC));  // mode 0600
  if (!file) return cannot_write(path);
  return NewFile(std::move(path), std::move(temporary), std::move(file));
}

NewFile::~NewFile() {
  if (!temporary_.empty()) (void)::unlink(temporary_.c_str());
}

absl::Status NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return cannot_write(path_);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status NewFile::finish() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_);
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace memprofd::ctl
