// What a cell of history adds to a measure.
#pragma once

#include "absl/status/status.h"
#include "daemon/aggregate/alloc_class.h"
#include "daemon/store/history_window.h"
#include "daemon/store/query.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// kInvalidArgument for measures that are no sum over cells.
absl::Status check_summable(Measure measure);
// Whether a cell tells how the measure changes, not what it was during the window.
inline bool is_level(Measure measure) {
  return measure == Measure::kLive || measure == Measure::kLiveObjects;
}
// Whether the weight of a sample depends on its class.
inline bool counts_blocks(Measure measure) {
  return measure == Measure::kAllocatedObjects || measure == Measure::kLiveObjects;
}
// Samples; below zero when a level falls.
inline double cell_samples(const WindowCell& cell, Measure measure) {
  switch (measure) {
    case Measure::kLive:
    case Measure::kLiveObjects:
      return static_cast<double>(cell.allocated) - cell.forgotten -
             cell.died[static_cast<int>(Heap::kMinor)] - cell.died[static_cast<int>(Heap::kMajor)];
    case Measure::kAllocated:
    case Measure::kAllocatedObjects:
    case Measure::kSamples:
      return cell.allocated;
    case Measure::kPromoted:
      return cell.promoted;
    case Measure::kDiedYoung:
      return cell.died[static_cast<int>(Heap::kMinor)];
    case Measure::kDiedOld:
      return cell.died[static_cast<int>(Heap::kMajor)];
    case Measure::kLifetime:
      break;
  }
  return 0;
}
// What one sample counts: bytes, blocks or samples.
inline double sample_weight(const AllocClass& alloc_class, double rate, Measure measure) {
  switch (measure) {
    case Measure::kSamples:
      return 1;
    case Measure::kAllocatedObjects:
    case Measure::kLiveObjects:
      return 1 / (rate * (alloc_class.size.middle_words() + 1));
    default:
      return kBytesPerWord / rate;
  }
}

}  // namespace memprofd
