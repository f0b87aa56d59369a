// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/record_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/fd.h"
#include "daemon/util/read_at.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "memprofd";
constexpr std::size_t kHeadBytes = 12;
constexpr std::size_t kFrameBytes = 8;

std::string bytes_of(std::uint32_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::uint32_t crc_of(std::uint32_t length, std::string_view record) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(record.data());
  const uLong head = ::crc32(0, reinterpret_cast<const Bytef*>(&length), sizeof length);
  return static_cast<std::uint32_t>(::crc32(head, bytes, static_cast<uInt>(record.size())));
}

absl::Status failed(std::string_view action, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ",
                                             absl::string_view(action.data(), action.size()), " ",
                                             path, ": ", std::strerror(errno)));
}

// Returns true if all of out was read.
bool read_exactly(int fd, std::uint64_t offset, void* out, std::size_t size) {
  auto* at = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = ::pread(fd, at, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Reads the whole record at the offset, and moves the offset after it.
bool read_record(int fd, std::uint64_t file_bytes, std::uint64_t& offset, std::string& record) {
  std::uint32_t frame[2];
  if (!read_exactly(fd, offset, frame, sizeof frame)) return false;
  const auto [length, crc] = frame;
  if (length == 0 || length > kMaxRecordBytes || length > file_bytes - offset - sizeof frame) {
    return false;
  }
  record.resize(length);
  if (!read_exactly(fd, offset + sizeof frame, record.data(), length)) return false;
  offset += sizeof frame + length;
  return crc_of(length, record) == crc;
}

}  // namespace

absl::StatusOr<RecordLog> RecordLog::create(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed("create", path);
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return failed("create", path);
  RecordLog log(path, std::move(fd));
  RETURN_IF_ERROR(log.write(std::string(kMagic) + bytes_of(kRecordLogVersion)));
  return log;
}

absl::Status RecordLog::append(std::string_view record) {
  if (torn_) return absl::DataLossError(absl::StrCat(path_, " has a torn record"));
  if (record.empty() || record.size() > kMaxRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a record of ", record.size(), " bytes"));
  }
  const auto length = static_cast<std::uint32_t>(record.size());
  std::string framed = bytes_of(length) + bytes_of(crc_of(length, record));
  framed.append(record);
  return write(framed);
}

absl::Status RecordLog::write(std::string_view bytes) {
  errno = write_all(fd_.get(), bytes);
  if (errno != 0) {
    absl::Status status = failed("write", path_);
    torn_ = ::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0 ||
            ::lseek(fd_.get(), static_cast<off_t>(bytes_), SEEK_SET) < 0;
    return status;
  }
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status read_records(const std::string& path,
                          const std::function<bool(std::string_view)>& use) {
  // O_NONBLOCK is required, because opening a FIFO would otherwise wait forever.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return failed("open", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  if (status.st_uid != ::geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " belongs to user ", status.st_uid, ", not to memprofd's"));
  }
  char head[kHeadBytes];
  const std::string expected = std::string(kMagic) + bytes_of(kRecordLogVersion);
  if (!read_exactly(fd.get(), 0, head, sizeof head) ||
      std::string_view(head, sizeof head) != expected) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is of another version of memprofd"));
  }
  std::uint64_t offset = kHeadBytes;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::string record;
  while (offset + kFrameBytes < size && read_record(fd.get(), size, offset, record)) {
    if (!use(record)) break;
  }
  return absl::OkStatus();
}

}  // namespace memprofd
