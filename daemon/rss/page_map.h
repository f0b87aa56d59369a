// SPDX-License-Identifier: Apache-2.0
// Pages of a process that are resident or swapped out, from /proc/PID/pagemap. Reading it neither
// touches the process nor waits.
//
// Linux 6.7 reports whole runs (PAGEMAP_SCAN); older kernels one word per page, in which the zero
// page is recognised by its frame.
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
  // Errors as of ProcFs; kUnimplemented where pages are not of 4 KiB.
  static absl::StatusOr<PageMap> open(int pid);

  // Gives the resident and swapped runs in [begin, end), both at pages, in their order. The zero
  // page is neither. Runs may follow upon each other without a gap.
  absl::Status scan(std::uint64_t begin, std::uint64_t end,
                    const std::function<void(const PageRun&)>& take) const;
  // Gives the guard regions in there (MADV_GUARD_INSTALL), which are pages without a mapping of
  // their own that nothing may touch. None before Linux 6.15.
  absl::Status scan_guards(std::uint64_t begin, std::uint64_t end,
                           const std::function<void(const PageRun&)>& take) const;
  // The same as scan() page by page, for old kernels and tests.
  absl::Status scan_words(std::uint64_t begin, std::uint64_t end,
                          const std::function<void(const PageRun&)>& take) const;

 private:
  PageMap(UniqueFd file, bool has_scan, bool has_guards, std::uint64_t zero_frame)
      : file_(std::move(file)),
        has_scan_(has_scan),
        has_guards_(has_guards),
        zero_frame_(zero_frame) {}

  // With the categories of each.
  absl::Status scan_categories(
      std::uint64_t begin, std::uint64_t end, std::uint64_t any_of, std::uint64_t returned,
      const std::function<void(const PageRun&, std::uint64_t)>& take) const;

  UniqueFd file_;
  bool has_scan_;
  bool has_guards_;           // the kernel knows them
  std::uint64_t zero_frame_;  // 0: not known
};

}  // namespace memprofd
