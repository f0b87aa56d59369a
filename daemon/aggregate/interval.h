// SPDX-License-Identifier: Apache-2.0
// What happened to each class in an interval: the raw material of history.
//
//  begin                                                 end
//    | class 7: alloc 2   class 9: alloc 1                |
//    | class 7: dies young after 3 ms                     |
//    '---- cells: 7 {alloc 2, deaths [(minor, 3 ms) 1]}, 9 {alloc 1} ----> history
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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
};

// All of one sampling rate. In steady state nothing allocates.
class Interval {
 public:
  Interval() = default;
  // Made of these cells, each of another class; no cell() may follow.
  explicit Interval(std::vector<IntervalCell> cells)
      : cells_(std::move(cells)), used_(cells_.size()) {}

  // The cell of a class, made when it is not there.
  IntervalCell& cell(ClassId alloc_class);
  bool empty() const { return used_ == 0; }
  // In no order.
  std::span<const IntervalCell> cells() const { return {cells_.data(), used_}; }
  // Keeps the memory.
  void clear();

 private:
  std::vector<IntervalCell> cells_;  // the first used_ are in use
  std::size_t used_ = 0;
  std::vector<std::uint32_t> index_;  // by class: its cell's number + 1; 0: none
};

}  // namespace memprofd
