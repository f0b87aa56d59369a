// SPDX-License-Identifier: Apache-2.0
// Judges whether the memory of a process grows, by counters that need no samples.
//
// The range is divided into steps of time, and the lowest value of each step counts: memory that
// goes up and down within a step has a floor, and a leak lifts the floor. Of the heap only ends of
// major collections count: between two of them it fills with garbage, leak or not.
//
// An area grows when its floors
//
//   rise       in an order that chance has in one of a hundred cases at most (Kendall),
//   far        enough: by 1 MiB and 2 % at least, and by twice what they scatter about a line,
//   repeatedly three times at least: a table that is loaded once is no leak,
//   go on:     in the later half of the moments by half as much as in the first at least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/history/snapshot.h"
#include "daemon/model/time_range.h"

namespace memprofd {

enum class MemoryArea { kHeap, kNative, kMapped };
inline constexpr int kMemoryAreas = 3;

// Nothing is known of fewer: they never rise by less than a chance of 1 %.
inline constexpr std::size_t kFewestFloors = 6;

struct MemoryFloor {
  std::uint64_t time_ns = 0;
  double bytes = 0;
};

struct MemoryGrowth {
  MemoryArea area{};
  double begin_bytes = 0, end_bytes = 0;  // of the first and the last floor
  double bytes_per_second = 0;            // of the line that the floors are nearest to
  std::uint64_t since_ns = 0;             // 0: it does not grow
  double confidence = 0;                  // that their order is no chance; 0: too few
  bool grows = false;
  std::size_t moments = 0;  // floors
};

// Judges an area by its floors.
MemoryGrowth judge_floors(MemoryArea area, const std::vector<MemoryFloor>& floors);
// One for each area of which anything is known in the range, which has both ends.
std::vector<MemoryGrowth> memory_growth(const HistoryView& history, const TimeRange& range);

}  // namespace memprofd
