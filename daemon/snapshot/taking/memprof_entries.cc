// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/taking/memprof_entries.h"

#include <algorithm>
#include <limits>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Words before the user data.
constexpr std::uint64_t kWords = 3;
// Entries are an array: many are read at once.
constexpr std::uint64_t kMostBytes = 256u << 10;
constexpr std::uint64_t kMostGapBytes = 256;

std::uint32_t saturated(std::uint64_t value) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

absl::StatusOr<std::vector<MemprofEntry>> read_memprof_entries(
    const MemoryReader& memory, std::span<const memprof_root> roots) {
  std::vector<memprof_root> numbers;
  for (const memprof_root& root : roots) {
    if (root.value % 2 != 0 && root.slot >= 8 * kWords) numbers.push_back(root);
  }
  std::sort(numbers.begin(), numbers.end(),
            [](const memprof_root& a, const memprof_root& b) { return a.slot < b.slot; });
  std::vector<MemprofEntry> entries;
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < numbers.size();) {
    const std::uint64_t begin = numbers[i].slot - 8 * kWords;
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end].slot - numbers[end - 1].slot <= kMostGapBytes &&
           numbers[end].slot - begin <= kMostBytes) {
      ++end;
    }
    words.resize((numbers[end - 1].slot - begin) / 8);
    RETURN_IF_ERROR(memory.read(begin, std::as_writable_bytes(std::span(words))));
    for (; i < end; ++i) {
      const std::uint64_t* entry = &words[(numbers[i].slot - begin) / 8 - kWords];
      const bool is_there = entry[0] != 0 && entry[0] % 8 == 0;
      entries.push_back({.sample_id = numbers[i].value >> 1,
                         .block = is_there ? entry[0] : 0,
                         .samples = saturated(std::max<std::uint64_t>(entry[1], 1))});
    }
  }
  return entries;
}

}  // namespace memprofd
