// SPDX-License-Identifier: Apache-2.0
// Events of each class in an interval, from which history is made.
//
//  begin                                                 end
//    | class 7: alloc 2   class 9: alloc 1                |
//    | class 7: dies young after 3 ms                     |
//    '---- cells: 7 {alloc 2, deaths [(minor, 3 ms) 1]}, 9 {alloc 1} ----> history
#pragma once

#include <cstdint>

#include "daemon/aggregate/class_cells.h"
#include "daemon/aggregate/death_counts.h"
#include "daemon/model/alloc_class.h"

namespace memprofd {

// Samples of one class. What is live grows by allocated - never_followed -
// deaths - forgotten.
struct IntervalCell {
  ClassId alloc_class;
  std::uint64_t allocated = 0;
  std::uint64_t promoted = 0;
  std::uint64_t never_followed = 0;  // of allocated
  std::uint64_t forgotten = 0;       // followed no longer; born then or before
  DeathCounts deaths;                // sum_ns is not kept in history
  AgeCounts ages;                    // of forgotten

  // Keeps the memory.
  void clear() {
    allocated = promoted = never_followed = forgotten = 0;
    deaths.clear();
    ages.clear();
  }
};

// All of one sampling rate.
using Interval = ClassCells<IntervalCell>;

}  // namespace memprofd
