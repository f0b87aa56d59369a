// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/trace_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

// The number of the error; 0 when all is written.
int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

TraceFiles::TraceFiles(std::string directory, std::string stem, std::size_t max_files)
    : directory_(std::move(directory)), stem_(std::move(stem)), max_files_(max_files) {}

absl::Status TraceFiles::error(int number, const std::string& action) const {
  return absl::UnavailableError(absl::StrCat("cannot ", action, ": ", std::strerror(number)));
}

absl::Status TraceFiles::begin_file() {
  const std::string name =
      begun_ == 0 ? absl::StrCat(stem_, ".ctf") : absl::StrCat(stem_, ".", begun_, ".ctf");
  const std::string path = absl::StrCat(directory_, "/", name);
  file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) return error(errno, absl::StrCat("create ", path));
  ++begun_;
  size_ = 0;
  paths_.push_back(path);
  if (max_files_ > 0 && paths_.size() > max_files_) remove_oldest();
  return absl::OkStatus();
}

absl::Status TraceFiles::write(std::span<const std::byte> packet) {
  if (const int number = write_all(file_.get(), packet); number != 0) {
    // Without room on the disk there may still be less of it in use.
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) return error(errno, "truncate");
    return error(number, absl::StrCat("write ", paths_.back()));
  }
  size_ += packet.size();
  return absl::OkStatus();
}

// Somebody may have been faster; then there is nothing to do.
void TraceFiles::remove_oldest() {
  ::unlink(paths_.front().c_str());
  paths_.pop_front();
}

absl::Status check_trace_directory(const std::string& directory) {
  struct stat status {};
  int number = ::stat(directory.c_str(), &status) == 0 ? 0 : errno;
  if (number == 0 && !S_ISDIR(status.st_mode)) number = ENOTDIR;
  if (number == 0 && ::access(directory.c_str(), W_OK | X_OK) != 0) number = errno;
  if (number == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write traces into ", directory, ": ", std::strerror(number),
                   "; give a directory that exists with --trace.directory"));
}

}  // namespace memprofd
