// SPDX-License-Identifier: Apache-2.0
// Events of each class in an interval. History is made of intervals.
//
// begin                                                 end
//    | class 7: alloc 2   class 9: alloc 1                |
//    | class 7: dies young after 3 ms                     |
//    '---- cells: 7 {alloc 2, deaths [(minor, 3 ms) 1]}, 9 {alloc 1} ----> history
#pragma once

#include <cstdint>

#include "daemon/aggregate/class_cells.h"
#include "daemon/aggregate/death_counts.h"
#include "daemon/model/alloc_class.h"

namespace memprofd {

// Samples of one class. Live samples grow by allocated - never_followed - deaths - forgotten.
struct IntervalCell {
  ClassId alloc_class;
  std::uint64_t allocated = 0;
  std::uint64_t promoted = 0;
  std::uint64_t never_followed = 0;  // part of allocated
  std::uint64_t forgotten = 0;       // no longer followed; allocated in this interval or earlier
  DeathCounts deaths;                // sum_ns is not stored in history
  AgeCounts ages;                    // ages of the forgotten samples

  // Clears the cell but keeps the memory.
  void clear() {
    allocated = promoted = never_followed = forgotten = 0;
    deaths.clear();
    ages.clear();
  }
};

// The events of one sampling rate.
using Interval = ClassCells<IntervalCell>;

}  // namespace memprofd
