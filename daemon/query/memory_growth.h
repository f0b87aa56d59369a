// SPDX-License-Identifier: Apache-2.0
// Judges whether the memory of a process grows, by counters that need no samples.
//
// The range is divided into steps of time, and the lowest value of each step is used: memory that
// goes up and down within a step has a floor, and a leak raises the floor. For the heap only ends
// of major collections are used: between two of them it fills with garbage, with or without a leak.
//
// An area grows if its floors
//
//   rise       in an order that chance produces in at most one of ten thousand cases (Kendall):
//              ten programs that are asked about every few seconds have that many in some hours
//   far        enough: by at least 1 MiB and 2 %, and by twice their scatter about a line, which
//              rises as far,
//   repeatedly at least three times, because a table that is loaded once is no leak,
//   continue:  in the later half of the steps by at least half as much as in the first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/history/history_view.h"
#include "daemon/model/query.h"

namespace memprofd {

enum class MemoryArea { kHeap, kNative, kMapped };
inline constexpr int kMemoryAreas = 3;

// Fewer floors are not judged: by chance alone they rise in more cases than that.
inline constexpr std::size_t kFewestFloors = 10;
// The smallest change that matters, in bytes, of memory that was so large.
inline double least_growth(double begin_bytes) { return std::max(1048576.0, 0.02 * begin_bytes); }

struct MemoryFloor {
  std::uint64_t time_ns = 0;
  double bytes = 0;
};

struct MemoryGrowth {
  MemoryArea area{};
  double begin_bytes = 0, end_bytes = 0;  // value of the first and of the last floor
  double bytes_per_second = 0;            // slope of the line fitted to the floors
  std::uint64_t since_ns = 0;             // 0: it does not grow
  double confidence = 0;  // probability that their order is not due to chance; 0: too few floors
  bool grows = false;
  std::size_t moments = 0;  // number of floors
};

// Judges an area by its floors.
MemoryGrowth judge_floors(MemoryArea area, const std::vector<MemoryFloor>& floors);
// Returns one for each area with data in the range, both ends of which are set.
std::vector<MemoryGrowth> memory_growth(const HistoryView& history, const TimeRange& range);

}  // namespace memprofd
