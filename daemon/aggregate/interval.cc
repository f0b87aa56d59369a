// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/interval.h"

namespace memprofd {

IntervalCell& Interval::cell(ClassId alloc_class) {
  if (alloc_class.value() >= index_.size()) index_.resize(alloc_class.value() + 1);
  std::uint32_t& number = index_[alloc_class.value()];
  if (number == 0) {
    if (used_ == cells_.size()) cells_.emplace_back();
    IntervalCell& fresh = cells_[used_];
    fresh.alloc_class = alloc_class;
    number = static_cast<std::uint32_t>(++used_);
  }
  return cells_[number - 1];
}

void Interval::clear() {
  for (std::size_t i = 0; i < used_; ++i) {
    IntervalCell& cell = cells_[i];
    index_[cell.alloc_class.value()] = 0;
    cell.allocated = cell.promoted = cell.never_followed = cell.forgotten = 0;
    cell.deaths.clear();
    cell.ages.clear();
  }
  used_ = 0;
}

}  // namespace memprofd
