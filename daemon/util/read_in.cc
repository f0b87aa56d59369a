// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/read_in.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/util/fd.h"

namespace memprofd {

void read_in(int file, std::span<const std::uint64_t> offsets) {
  std::uint64_t before = ~std::uint64_t{0};
  for (const std::uint64_t offset : offsets) {
    const std::uint64_t page = offset & ~(kCodePageBytes - 1);
    char byte = 0;
    if (page != before) (void)::pread(file, &byte, 1, static_cast<off_t>(page));
    before = page;
  }
}

void read_in_whole(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto end = static_cast<std::uint64_t>(status.st_size);
  for (std::uint64_t at = 0; at < end; at += kCodePageBytes) read_in(file.get(), {&at, 1});
}

}  // namespace memprofd
