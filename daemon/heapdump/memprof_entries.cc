// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/memprof_entries.h"

#include <algorithm>
#include <limits>
#include <span>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Value of an entry without a block.
constexpr std::uint64_t kUnit = 1;
// Entries form an array, so many are read at once.
constexpr std::uint64_t kMaxBytes = 256u << 10;
constexpr std::uint64_t kMaxGapBytes = 256;

std::uint32_t saturated(std::uint64_t value) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

absl::StatusOr<std::vector<MemprofEntry>> read_memprof_entries(const MemoryReader& memory,
                                                               const RuntimeAbi& abi,
                                                               std::vector<memprof_root> roots) {
  const MemprofEntryLayout layout = abi.entry;
  const auto before = static_cast<std::uint64_t>(-layout.block);
  std::erase_if(roots, [before](const memprof_root& root) {
    return root.value % 2 == 0 || root.value == kUnit || root.slot < 8 * before;
  });
  std::sort(roots.begin(), roots.end(),
            [](const memprof_root& a, const memprof_root& b) { return a.slot < b.slot; });
  std::vector<MemprofEntry> entries;
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < roots.size();) {
    const std::uint64_t begin = roots[i].slot - 8 * before;
    std::size_t end = i + 1;
    while (end < roots.size() && roots[end].slot - roots[end - 1].slot <= kMaxGapBytes &&
           roots[end].slot - begin <= kMaxBytes) {
      ++end;
    }
    words.resize((roots[end - 1].slot - begin) / 8 + layout.words_behind);
    RETURN_IF_ERROR(memory.read(begin, std::as_writable_bytes(std::span(words))));
    for (; i < end; ++i) {
      const std::uint64_t* entry = &words[(roots[i].slot - begin) / 8];
      const std::uint64_t block = entry[layout.block];
      entries.push_back({.sample_id = roots[i].value >> 1,
                         .block = block % 8 == 0 ? block : 0,
                         .samples = saturated(std::max<std::uint64_t>(entry[layout.samples], 1))});
    }
  }
  return entries;
}

}  // namespace memprofd
