// SPDX-License-Identifier: Apache-2.0
// What a cell of history adds to a measure.
#pragma once

#include "absl/status/status.h"
#include "daemon/history/history_window.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/query.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// kInvalidArgument for measures that are no sum over cells.
absl::Status check_summable(Measure measure);
// Samples of such blocks; below zero when what is live falls.
inline double cell_samples(const WindowCell& cell, Blocks blocks) {
  const auto died = [&](Heap heap) {
    return static_cast<double>(cell.died[static_cast<int>(heap)]);
  };
  switch (blocks) {
    case Blocks::kAllocated:
      return static_cast<double>(cell.allocated);
    case Blocks::kPromoted:
      return static_cast<double>(cell.promoted);
    case Blocks::kLive:
      return static_cast<double>(cell.allocated) - static_cast<double>(cell.never_followed) -
             static_cast<double>(cell.forgotten) - died(Heap::kMinor) - died(Heap::kMajor);
    case Blocks::kDiedYoung:
      return died(Heap::kMinor);
    case Blocks::kDiedOld:
      return died(Heap::kMajor);
    case Blocks::kDied:
      break;
  }
  return died(Heap::kMinor) + died(Heap::kMajor);
}
// What one sample counts in a unit that can be summed.
inline double sample_weight(const AllocClass& alloc_class, double rate, Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return kBytesPerWord / rate;
    case Unit::kBlocks:
      return 1 / (rate * (alloc_class.size.middle_words() + 1));
    case Unit::kSamples:
      return 1;
    case Unit::kSeconds:
      break;
  }
  return 0;
}

}  // namespace memprofd
