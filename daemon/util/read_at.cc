// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/read_at.h"

#include <unistd.h>

#include <cerrno>

namespace memprofd {

absl::Status read_at(int fd, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "read");
    if (n == 0) return absl::OutOfRangeError("file ends early");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace memprofd
