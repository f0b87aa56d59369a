// SPDX-License-Identifier: Apache-2.0
// Memory counters from /proc/PID/status: the kernel's own, read at one moment.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace memprofd {

// In bytes.
struct MemoryStatus {
  std::uint64_t anonymous = 0;
  std::uint64_t files = 0;
  std::uint64_t shared = 0;  // shared memory without a file on disk
  std::uint64_t swapped = 0;
  std::uint64_t page_tables = 0;
  std::uint64_t huge_pages = 0;  // hugetlbfs pages; not part of the resident size
  int threads = 0;

  std::uint64_t resident() const { return anonymous + files + shared; }
};

// Accepts any text. kDataLoss if it lacks the resident memory, as for a process that has ended.
absl::StatusOr<MemoryStatus> parse_memory_status(std::string_view text);

// Returns the errors of ProcFs.
absl::StatusOr<MemoryStatus> read_memory_status(int pid);

}  // namespace memprofd
