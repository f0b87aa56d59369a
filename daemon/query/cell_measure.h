// SPDX-License-Identifier: Apache-2.0
// The contribution of a cell of history to a measure.
#pragma once

#include "absl/status/status.h"
#include "daemon/history/history_window.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// kInvalidArgument for measures that are not sums over cells.
inline absl::Status check_summable(Measure measure) {
  if (measure_row(measure).is_sum()) return absl::OkStatus();
  return absl::InvalidArgumentError("lifetimes have no history; ask for sites in a range instead");
}

// Number of samples of these blocks; negative if live memory falls.
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
// The contribution of one sample to a sum, in a unit that can be summed.
struct SampleValue {
  double value = 0;
  double variance = 0;
  double skew = 0;  // the variance times the grain
};
inline SampleValue sample_value(const AllocClass& alloc_class, const SampleWeight& each,
                                Unit unit) {
  const auto by = [&](double factor) {
    return SampleValue{each.words * factor, each.variance_words2 * factor * factor,
                       each.skew_words3 * factor * factor * factor};
  };
  switch (unit) {
    case Unit::kBytes:
      return by(kBytesPerWord);
    case Unit::kBlocks:
      return by(1 / alloc_class.block_words());
    case Unit::kSamples:
      return {1, 1, 1};
    case Unit::kSeconds:
      break;
  }
  return {};
}

}  // namespace memprofd
