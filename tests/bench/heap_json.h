// SPDX-License-Identifier: Apache-2.0
// Prints statistics of a heap as JSON on standard output.
#pragma once

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <string>

#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_map.h"

namespace memprofd {

inline double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline std::string json(const BlockCount& count) {
  return fmt::format("[{},{}]", count.blocks, count.words);
}

inline std::string json(const SizeTable& table) {
  std::string text;
  for (const SizeRow& row : table.rows()) {
    text += fmt::format("{}[{},{},{}]", text.empty() ? "" : ",", row.tag, row.fields, row.blocks);
  }
  return "[" + text + "]";
}

inline void print_heap(const HeapMap& map, const HeapCensus& census, double seconds) {
  fmt::print("{{\"used\":{},\"dead\":{},\"free\":{},\"fragments\":{},\"minor\":{},",
             json(census.major(BlockState::kUsed)), json(census.major(BlockState::kDead)),
             json(census.major(BlockState::kFree)), json(census.major(BlockState::kFragment)),
             json(census.minor()));
  fmt::print(
      "\"large\":{},\"largest_free\":{},\"heap_words\":{},\"regions\":{},\"seconds\":{:.4f},",
      json(census.count(RegionKind::kLarge, BlockState::kUsed)), census.largest_free_words(),
      map.sums.heap_words, map.regions.size(), seconds);
  const auto orphans = std::count_if(
      map.regions.begin(), map.regions.end(),
      [](const HeapRegion& region) { return region.domain == HeapRegion::kNoDomain; });
  fmt::print("\"orphans\":{},\"rows\":{}}}", orphans, json(census.used()));
}

}  // namespace memprofd
