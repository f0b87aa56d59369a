// SPDX-License-Identifier: Apache-2.0
// Files that a test creates by the thousand, in memory so that no disk slows it down.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "daemon/util/fd.h"

namespace memprofd {

inline UniqueFd memory_file(std::string_view contents = {}) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  if (::pwrite(fd.get(), contents.data(), contents.size(), 0) !=
      static_cast<ssize_t>(contents.size())) {
    std::abort();
  }
  return fd;
}

}  // namespace memprofd
