// SPDX-License-Identifier: Apache-2.0
// Finds the pages of a process that are resident or swapped out, from /proc/PID/pagemap. Reading it
// neither affects the process nor waits.
//
// Linux 6.7 reports whole runs (PAGEMAP_SCAN). Older kernels report one word per page, in which the
// zero page is recognised by its frame.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

inline constexpr std::uint64_t kPageBytes = 4096;

struct PageRun {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool swapped = false;
};

class PageMap {
 public:
  // Returns the errors of ProcFs; kUnimplemented if pages are not 4 KiB.
  static absl::StatusOr<PageMap> open(int pid);

  // Reports the resident and swapped runs in [begin, end), both page-aligned, in order. The zero
  // page is neither. Runs may be adjacent.
  absl::Status scan(std::uint64_t begin, std::uint64_t end,
                    const std::function<void(const PageRun&)>& take) const;
  // Reports the guard regions in that range (MADV_GUARD_INSTALL): inaccessible pages without a
  // mapping of their own. Finds none before Linux 6.15.
  absl::Status scan_guards(std::uint64_t begin, std::uint64_t end,
                           const std::function<void(const PageRun&)>& take) const;
  // Same as scan(), page by page, for old kernels and tests.
  absl::Status scan_words(std::uint64_t begin, std::uint64_t end,
                          const std::function<void(const PageRun&)>& take) const;

 private:
  PageMap(UniqueFd file, bool has_scan, bool has_guards, std::uint64_t zero_frame)
      : file_(std::move(file)),
        has_scan_(has_scan),
        has_guards_(has_guards),
        zero_frame_(zero_frame) {}

  // Also reports the categories of each run.
  absl::Status scan_categories(
      std::uint64_t begin, std::uint64_t end, std::uint64_t any_of, std::uint64_t returned,
      const std::function<void(const PageRun&, std::uint64_t)>& take) const;

  UniqueFd file_;
  bool has_scan_;
  bool has_guards_;           // the kernel supports guard regions
  std::uint64_t zero_frame_;  // 0: unknown
};

}  // namespace memprofd
