// SPDX-License-Identifier: Apache-2.0
// Addresses of C library functions in a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

struct LibcFunctions {
  std::uint64_t dlopen = 0;
  std::uint64_t raise = 0;
  std::uint64_t syscall = 0;
  // Code that calls rt_sigreturn, to which signal handlers return.
  std::uint64_t restorer = 0;
  // Code of the C library: [begin, end).
  std::uint64_t text_begin = 0;
  std::uint64_t text_end = 0;
  // The dynamic linker's list of loaded files (struct r_debug); 0: not found.
  std::uint64_t loaded_list = 0;
  // The last entry of that list when the process was inspected; 0: unknown.
  std::uint64_t loaded_last = 0;
  // Address at which the C library keeps the distance of errno from the thread pointer; 0: not
  // found.
  std::uint64_t errno_slot = 0;
  // The value there when the process was inspected, which never changes; nothing: unknown.
  std::optional<std::uint64_t> errno_distance;
};

// maps: those of the inspected address space (TargetMemory::maps). kFailedPrecondition if the
// process runs without a shared glibc.
absl::StatusOr<LibcFunctions> find_libc_functions(int pid, const std::vector<Mapping>& maps);

}  // namespace memprofd
