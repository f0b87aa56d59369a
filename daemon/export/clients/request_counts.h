// SPDX-License-Identifier: Apache-2.0
// Counts requests to a server by kind and result, with their durations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/model/duration_counts.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Any thread.
class RequestCounts {
 public:
  // Prometheus labels of a request. Their values come from a small fixed set, so that clients
  // cannot create series.
  using Kind = std::vector<std::pair<std::string, std::string>>;
  struct Counts {
    std::uint64_t begun = 0;
    std::map<std::string, std::uint64_t> ended;  // by result
    DurationCounts durations;                    // durations of the ended ones
  };

  void begin(const Kind& kind) {
    const MutexLock lock(mutex_);
    ++counts_[kind].begun;
  }
  void end(const Kind& kind, const std::string& outcome, double seconds) {
    const MutexLock lock(mutex_);
    Counts& counts = counts_[kind];
    ++counts.ended[outcome];
    counts.durations.add(seconds);
  }
  std::map<Kind, Counts> all() const {
    const MutexLock lock(mutex_);
    return counts_;
  }

 private:
  mutable Mutex mutex_;
  std::map<Kind, Counts> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
