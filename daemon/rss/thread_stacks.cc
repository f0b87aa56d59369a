// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/thread_stacks.h"

#include <array>
#include <cstdint>

#include "daemon/rss/page_map.h"

namespace memprofd {
namespace {

// Memory is not classified as a stack if more than this is in use.
constexpr std::uint64_t kMaxBytes = 16 << 20;
constexpr std::size_t kAlignWords = 8;

// The page after the thread's own block if that block is in this page, otherwise 0.
std::uint64_t end_of_stack(const MemoryReader& memory, std::uint64_t page) {
  std::array<std::uint64_t, kPageBytes / sizeof(std::uint64_t)> words;
  if (!memory.read_value(page, words).ok()) return 0;
  for (std::size_t i = 0; i < words.size(); i += kAlignWords) {
    const std::uint64_t address = page + i * sizeof words[0];
    if (words[i] == address && words[i + 2] == address) return page + kPageBytes;
  }
  return 0;
}

}  // namespace

bool find_thread_stack(const MemoryReader& memory, const AddressSpan& span,
                       std::span<const AddressSpan> runs, ExtentLayer& out) {
  std::uint64_t scanned_bytes = 0;
  for (const AddressSpan& run : runs) {
    for (std::uint64_t page = run.begin; page < run.end; page += kPageBytes) {
      const std::uint64_t end = end_of_stack(memory, page);
      if (end != 0) {
        out.add({.begin = span.begin, .end = end, .kind = RssClass::kThreadStack});
        return true;
      }
      if ((scanned_bytes += kPageBytes) > kMaxBytes) return false;
    }
  }
  return false;
}

}  // namespace memprofd
