// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/trace_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/writable_directory.h"

namespace memprofd {
namespace {

// Skips files that are removed meanwhile.
std::uint64_t bytes_of_traces(const std::string& directory) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() != ".ctf") continue;
    std::error_code gone;
    const std::uintmax_t bytes = at->is_symlink(gone) ? 0 : at->file_size(gone);
    if (!gone) sum += bytes;
  }
  return sum;
}

}  // namespace

TraceFiles::TraceFiles(std::string directory, std::string stem, std::size_t max_files,
                       std::uint64_t max_bytes)
    : directory_(std::move(directory)),
      stem_(std::move(stem)),
      max_files_(max_files),
      max_bytes_(max_bytes) {}

absl::Status TraceFiles::error(int number, const std::string& action) const {
  return absl::UnavailableError(absl::StrCat("cannot ", action, ": ", std::strerror(number)));
}

absl::Status TraceFiles::begin_file() {
  RETURN_IF_ERROR(check_trace_room(directory_, max_bytes_));
  const std::string name =
      begun_ == 0 ? absl::StrCat(stem_, ".ctf") : absl::StrCat(stem_, ".", begun_, ".ctf");
  const std::string path = absl::StrCat(directory_, "/", name);
  file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) return error(errno, absl::StrCat("create ", path));
  ++begun_;
  size_ = checked_ = 0;
  paths_.push_back(path);
  if (max_files_ > 0 && paths_.size() > max_files_) remove_oldest();
  return absl::OkStatus();
}

absl::Status TraceFiles::write(std::span<const std::byte> packet) {
  if (size_ + packet.size() - checked_ >= kQuotaStep) {
    RETURN_IF_ERROR(check_trace_room(directory_, max_bytes_));
    checked_ = size_;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(packet.data()), packet.size());
  if (const int number = write_all(file_.get(), bytes); number != 0) {
    // Removes the partial packet. A full disk does not prevent truncation.
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) return error(errno, "truncate");
    return error(number, absl::StrCat("write ", paths_.back()));
  }
  size_ += packet.size();
  return absl::OkStatus();
}

// Another process may have removed the file already.
void TraceFiles::remove_oldest() {
  ::unlink(paths_.front().c_str());
  paths_.pop_front();
}

void TraceFiles::remove() {
  while (!paths_.empty()) remove_oldest();
}

absl::Status make_trace_directory(const std::string& directory) {
  return make_writable_directory(directory, "traces", "--trace.directory");
}

absl::Status check_trace_room(const std::string& directory, std::uint64_t max_bytes) {
  const std::uint64_t used = bytes_of_traces(directory);
  if (used < max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the traces in ", directory, " take ", format_bytes(static_cast<double>(used)),
                   ", and --trace.max-bytes allows ", format_bytes(static_cast<double>(max_bytes)),
                   "; remove some, or raise it"));
}

}  // namespace memprofd
