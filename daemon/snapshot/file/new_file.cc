// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/fd.h"

namespace memprofd {
namespace {

constexpr char kPartEnding[] = ".XXXXXX.part";
constexpr int kAfterRandom = 5;  // ".part"

absl::Status write_to(int file, std::string_view bytes, const std::string& what) {
  errno = write_all(file, bytes);
  return errno == 0 ? absl::OkStatus() : cannot_write(what);
}

}  // namespace

absl::Status cannot_write(const std::string& what) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot write ", what, ": ", std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<NewFile> NewFile::create(std::string path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot write ", path, ": it exists and is not a regular file; choose another name"));
  }
  // A process that removes unfinished files may take the file before it is locked: then create
  // another one.
  for (;;) {
    std::string temporary = path + kPartEnding;
    UniqueFd file(::mkostemps(temporary.data(), kAfterRandom, O_CLOEXEC));  // mode 0600
    if (!file) return cannot_write(path);
    (void)::flock(file.get(), LOCK_EX);  // some file systems have no locks
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return cannot_write(path);
    if (status.st_nlink == 0) continue;
    return NewFile(std::move(path), std::move(temporary), std::move(file));
  }
}

void NewFile::remove_left(const std::string& path) {
  if (!path.ends_with(std::string_view(kPartEnding).substr(sizeof kPartEnding - 1 - kAfterRandom)))
    return;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) (void)::unlink(path.c_str());
}

NewFile::~NewFile() {
  if (!temporary_.empty()) (void)::unlink(temporary_.c_str());
}

absl::Status NewFile::write(std::string_view bytes) { return write_to(file_.get(), bytes, path_); }

absl::Status NewFile::finish() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_);
  temporary_.clear();
  return absl::OkStatus();
}

absl::StatusOr<NamelessFile> NamelessFile::create() {
  const char* tmpdir = std::getenv("TMPDIR");
  std::string folder = tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
  std::string path = folder + "/memprofctl.XXXXXX";
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));  // mode 0600
  if (!file || ::unlink(path.c_str()) != 0) return cannot_write(path);
  return NamelessFile(std::move(folder), std::move(file));
}

absl::Status NamelessFile::write(std::string_view bytes) const {
  return write_to(file_.get(), bytes, "a file in " + folder_ + " (TMPDIR names another folder)");
}

std::string NamelessFile::path() const { return absl::StrCat("/proc/self/fd/", file_.get()); }

}  // namespace memprofd
