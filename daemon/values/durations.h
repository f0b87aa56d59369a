// SPDX-License-Identifier: Apache-2.0
// Durations of a program's timers, by the buckets of its registry (memprof_values_abi.h), summed
// over all lanes. Accepts any contents of that memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

class Durations {
 public:
  // Known up to the width of a bucket: in [low, high). The last bucket has no end.
  struct Range {
    double low_seconds = 0;
    double high_seconds = 0;
  };
  struct Bucket {
    Range range;
    std::uint64_t count = 0;
  };

  void add(const memprof_timer_histogram& lane);
  // The longest interval counted in some lane, from its cell.
  void note_longest(std::uint64_t ticks) { longest_ticks_ = std::max(longest_ticks_, ticks); }
  void set_ns_per_tick(double ns_per_tick) { ns_per_tick_ = ns_per_tick; }

  std::uint64_t count() const;
  double seconds() const { return static_cast<double>(sum_ticks_) * ns_per_tick_ / 1e9; }
  // Buckets that are not empty, from the shortest on.
  std::vector<Bucket> buckets() const;
  // The longest interval. The cell may have been read before the histogram: then at least the
  // longest in the histogram. 0 if there are none.
  double longest_seconds() const;
  // Range that this share of the intervals does not exceed, never above the longest one; nullopt if
  // there are none.
  std::optional<Range> quantile(double share) const;
  // Number of intervals that are not longer. A bucket counts where its middle lies, so the limit is
  // at most one eighth off.
  std::uint64_t not_above(double seconds) const;
  // Intervals added since then, for the same program.
  Durations since(const Durations& before) const;

 private:
  Range range_of(std::uint32_t bucket) const;

  double ns_per_tick_ = 1;
  std::uint64_t sum_ticks_ = 0;
  std::uint64_t longest_ticks_ = 0;  // 0: not known
  std::array<std::uint64_t, MEMPROF_VALUES_BUCKETS> counts_{};
};
using DurationsPtr = std::shared_ptr<const Durations>;

// The durations of all timers, by cell.
class TimerDurations {
 public:
  // address: of a lane's struct memprof_lane_histograms; cells: of that lane's timers. Reads only
  // what these timers have written, so a page that the program has not touched stays untouched.
  absl::Status add_lane(const MemoryReader& memory, std::uint64_t address,
                        std::span<const memprof_timer_cell> cells);
  // Null: no interval was stopped with its token.
  DurationsPtr of(std::uint32_t cell, double ns_per_tick) const;

 private:
  std::map<std::uint32_t, Durations> by_cell_;
};

}  // namespace memprofd
