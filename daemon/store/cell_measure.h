// What a cell of history adds to a measure.
#pragma once

#include "absl/status/status.h"
#include "daemon/aggregate/alloc_class.h"
#include "daemon/store/history_window.h"
#include "daemon/store/query.h"

namespace memprofd {

// kInvalidArgument for measures that are no sum over cells.
absl::Status check_summable(Measure measure);
// Whether a cell tells how the measure changes, not what it was during the window.
inline bool is_level(Measure measure) {
  return measure == Measure::kLive || measure == Measure::kLiveObjects;
}
// Samples; below zero when a level falls.
double cell_samples(const WindowCell& cell, Measure measure);
// What one sample counts: bytes, blocks or samples.
double sample_weight(const AllocClass& alloc_class, double rate, Measure measure);

}  // namespace memprofd
