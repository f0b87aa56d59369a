// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/page_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Matches linux/fs.h of Linux 6.7; kGuard that of 6.15.
struct ScanArguments {
  std::uint64_t size = sizeof(ScanArguments);
  std::uint64_t flags = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t walk_end = 0;
  std::uint64_t regions = 0;
  std::uint64_t region_count = 0;
  std::uint64_t max_pages = 0;
  std::uint64_t inverted = 0;
  std::uint64_t all_of = 0;
  std::uint64_t any_of = 0;
  std::uint64_t returned = 0;
};
struct ScanRegion {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t categories;
};
constexpr unsigned long kScan = _IOWR('f', 16, ScanArguments);
constexpr std::uint64_t kPresent = 1 << 3, kSwapped = 1 << 4, kZeroPage = 1 << 5;
constexpr std::uint64_t kGuard = 1 << 8;

constexpr std::uint64_t kWordPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kWordSwapped = std::uint64_t{1} << 62;
constexpr std::uint64_t kWordGuard = std::uint64_t{1} << 58;
constexpr std::uint64_t kFrameMask = (std::uint64_t{1} << 55) - 1;

absl::StatusOr<UniqueFd> open_pagemap(int pid) {
  UniqueFd file(::open(ProcFs().path(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return process_error(pid, errno, "read pagemap");
  return file;
}

// The frame that is shared by all pages that were only read. 0: unknown, because frames are hidden
// without CAP_SYS_ADMIN, and some kernels give each such page its own frame.
std::uint64_t find_zero_frame() {
  constexpr std::size_t kBytes = 2 * kPageBytes;
  void* pages = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return 0;
  std::array<std::uint64_t, 2> words{};
  const auto* bytes = static_cast<const volatile char*>(pages);
  const auto at = reinterpret_cast<std::uint64_t>(pages);
  const UniqueFd file(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const bool zero = bytes[0] == 0 && bytes[kPageBytes] == 0;  // maps the pages
  const ssize_t got = zero && file ? ::pread(file.get(), words.data(), sizeof words,
                                             static_cast<off_t>(at / kPageBytes * sizeof words[0]))
                                   : 0;
  ::munmap(pages, kBytes);
  const std::uint64_t frame = words[0] & kFrameMask;
  return got == sizeof words && frame == (words[1] & kFrameMask) ? frame : 0;
}

absl::Status cannot_scan() { return absl::ErrnoToStatus(errno, "cannot read pagemap"); }

}  // namespace

absl::StatusOr<PageMap> PageMap::open(int pid) {
  if (static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) != kPageBytes) {
    return absl::UnimplementedError("memory is counted in pages of 4 KiB only");
  }
  ASSIGN_OR_RETURN(UniqueFd file, open_pagemap(pid));
  ScanArguments nothing, guards{.any_of = kGuard, .returned = kGuard};
  const bool has_scan = ::ioctl(file.get(), kScan, &nothing) == 0;
  const bool has_guards = has_scan && ::ioctl(file.get(), kScan, &guards) == 0;
  return PageMap(std::move(file), has_scan, has_guards, find_zero_frame());
}

absl::Status PageMap::scan_categories(
    std::uint64_t begin, std::uint64_t end, std::uint64_t any_of, std::uint64_t returned,
    const std::function<void(const PageRun&, std::uint64_t)>& take) const {
  std::array<ScanRegion, 512> regions;
  while (begin < end) {
    ScanArguments arguments{.start = begin,
                            .end = end,
                            .regions = reinterpret_cast<std::uint64_t>(regions.data()),
                            .region_count = regions.size(),
                            .any_of = any_of,
                            .returned = returned};
    const int found = ::ioctl(file_.get(), kScan, &arguments);
    if (found < 0 && errno == EINTR) continue;
    if (found < 0) return cannot_scan();
    for (int i = 0; i < found; ++i) {
      const ScanRegion& region = regions[static_cast<std::size_t>(i)];
      take({.begin = region.begin,
            .end = region.end,
            .swapped = (region.categories & kPresent) == 0},
           region.categories);
    }
    if (arguments.walk_end <= begin) return absl::InternalError("pagemap makes no progress");
    begin = arguments.walk_end;
  }
  return absl::OkStatus();
}

absl::Status PageMap::scan(std::uint64_t begin, std::uint64_t end,
                           const std::function<void(const PageRun&)>& take) const {
  if (!has_scan_) return scan_words(begin, end, take);
  // The kernel stores a guard in the same way as a swapped page.
  const std::uint64_t neither = kZeroPage | (has_guards_ ? kGuard : 0);
  return scan_categories(begin, end, kPresent | kSwapped, kPresent | kSwapped | neither,
                         [&](const PageRun& run, std::uint64_t categories) {
                           if ((categories & neither) == 0) take(run);
                         });
}

absl::Status PageMap::scan_guards(std::uint64_t begin, std::uint64_t end,
                                  const std::function<void(const PageRun&)>& take) const {
  if (!has_guards_) return absl::OkStatus();
  return scan_categories(begin, end, kGuard, kGuard,
                         [&](const PageRun& run, std::uint64_t) { take(run); });
}

absl::Status PageMap::scan_words(std::uint64_t begin, std::uint64_t end,
                                 const std::function<void(const PageRun&)>& take) const {
  std::array<std::uint64_t, 8192> words;
  while (begin < end) {
    const std::uint64_t pages = std::min<std::uint64_t>((end - begin) / kPageBytes, words.size());
    const ssize_t got = ::pread(file_.get(), words.data(), pages * sizeof words[0],
                                static_cast<off_t>(begin / kPageBytes * sizeof words[0]));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_scan();
    if (got < static_cast<ssize_t>(sizeof words[0])) return absl::OkStatus();  // has ended
    for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof words[0]; ++i) {
      const std::uint64_t word = words[i], page = begin + i * kPageBytes;
      const bool present = (word & kWordPresent) != 0;
      if (!present && (word & kWordSwapped) == 0) continue;
      if (has_guards_ && (word & kWordGuard) != 0) continue;
      if (present && zero_frame_ != 0 && (word & kFrameMask) == zero_frame_) continue;
      take({.begin = page, .end = page + kPageBytes, .swapped = !present});
    }
    begin += static_cast<std::uint64_t>(got) / sizeof words[0] * kPageBytes;
  }
  return absl::OkStatus();
}

}  // namespace memprofd
