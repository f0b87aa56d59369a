// SPDX-License-Identifier: Apache-2.0
// Memory counters of /proc/PID/status: the kernel's own, read at one moment.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace memprofd {

// In bytes.
struct MemoryStatus {
  std::uint64_t anonymous = 0;
  std::uint64_t files = 0;
  std::uint64_t shared = 0;  // shared memory, which has no file on a disk
  std::uint64_t swapped = 0;
  std::uint64_t page_tables = 0;
  std::uint64_t huge_pages = 0;  // of hugetlbfs; no part of the resident size
  int threads = 0;

  std::uint64_t resident() const { return anonymous + files + shared; }
};

// Total on any text. kDataLoss if it lacks the resident memory, as for a process that has ended.
absl::StatusOr<MemoryStatus> parse_memory_status(std::string_view text);

// Errors as of ProcFs.
absl::StatusOr<MemoryStatus> read_memory_status(int pid);

}  // namespace memprofd
