// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/page_count.h"

#include <algorithm>

#include "daemon/rss/page_map.h"

namespace memprofd {

void PageCount::add(const Extent& piece, bool swapped) {
  const std::uint64_t bytes = piece.end - piece.begin;
  if (swapped) {
    amounts(piece).swapped += bytes;
    return;
  }
  report_.counted += bytes;
  amounts(piece).resident += bytes;
  if (piece.kind == RssClass::kMallocFree) {
    const std::uint64_t first = (piece.begin + kPageBytes - 1) / kPageBytes * kPageBytes;
    const std::uint64_t last = piece.end / kPageBytes * kPageBytes;
    report_.trimmable += last - std::min(first, last);
  }
  if (!has_names(piece.kind)) add_in_arena(piece, bytes);
}

void PageCount::add_in_arena(const Extent& piece, std::uint64_t bytes) {
  if (piece.name == 0 || piece.name > report_.arenas.size()) return;
  RssArena& arena = report_.arenas[piece.name - 1];
  if (piece.kind == RssClass::kMallocFree) arena.free += bytes;
  if (piece.kind == RssClass::kMallocCache) arena.cached += bytes;
  if (piece.kind == RssClass::kMallocUnwalked || piece.kind == RssClass::kNotRead) {
    arena.unwalked += bytes;
  }
  if (piece.kind == RssClass::kMallocUsed || piece.kind == RssClass::kFiberStack) {
    arena.used += bytes;
  }
}

void PageCount::split_ocaml_heap(const OcamlCounts& counts) {
  const auto found = amounts_.find({RssClass::kOcamlUsed, 0});
  if (found == amounts_.end()) return;
  Amounts& used = found->second;
  const std::uint64_t blocks = counts.heap - std::min(counts.free, counts.heap);
  const std::uint64_t resident = std::min(used.resident, blocks - std::min(blocks, used.swapped));
  Amounts& free = amounts_[{RssClass::kOcamlFree, 0}];
  free.resident += used.resident - resident;
  free.size += used.size - std::min(used.size, blocks);
  used.resident = resident;
  used.size = std::min(used.size, blocks);
}

void PageCount::make_parts(const PartNames& names,
                           const std::function<std::uint64_t(RssClass)>& number_of) {
  for (const auto& [key, amounts] : amounts_) {
    report_.parts.push_back({.kind = key.first,
                             .name = names.name(key.second),
                             .resident = amounts.resident,
                             .size = amounts.size,
                             .swapped = amounts.swapped,
                             .number = number_of(key.first)});
  }
  std::ranges::stable_sort(report_.parts, [](const RssPart& a, const RssPart& b) {
    return std::pair(a.kind, b.resident) < std::pair(b.kind, a.resident);
  });
}

}  // namespace memprofd
