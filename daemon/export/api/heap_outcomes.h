// SPDX-License-Identifier: Apache-2.0
// Counts the outcomes of heap snapshots that users or rules requested, by code of the answer; and
// for each target the number taken and their durations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/model/duration_counts.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class HeapOutcomes {
 public:
  // Any thread.
  void count(const absl::Status& outcome) {
    const MutexLock lock(mutex_);
    ++counts_[index_of(outcome.code())];
  }
  // Counts a snapshot of the target that was attached to at that time. Any thread.
  void count_taken(int pid, std::uint64_t attached_ns) {
    const MutexLock lock(mutex_);
    ++taken_[{attached_ns, pid}];
    if (taken_.size() > kMaxTargets) taken_.erase(taken_.begin());
  }
  // Counts the duration of a snapshot and of its pause. Any thread.
  void count_times(double seconds, double pause_seconds) {
    const MutexLock lock(mutex_);
    times_.durations.add(seconds);
    times_.pauses.add(pause_seconds);
  }
  struct Times {
    DurationCounts durations, pauses;
  };
  Times times() const {
    const MutexLock lock(mutex_);
    return times_;
  }
  std::uint64_t taken_of(int pid, std::uint64_t attached_ns) const {
    const MutexLock lock(mutex_);
    const auto known = taken_.find({attached_ns, pid});
    return known == taken_.end() ? 0 : known->second;
  }
  // All outcomes with their counts.
  std::vector<std::pair<std::string, std::uint64_t>> all() const {
    const MutexLock lock(mutex_);
    std::vector<std::pair<std::string, std::uint64_t>> all;
    for (std::size_t i = 0; i < kNames.size(); ++i) all.emplace_back(kNames[i].name, counts_[i]);
    return all;
  }

 private:
  // Number of targets that are remembered; the one that was attached first is forgotten first.
  static constexpr std::size_t kMaxTargets = 4096;

  struct Name {
    absl::StatusCode code;
    const char* name;
  };
  static constexpr std::array<Name, 10> kNames{
      {{absl::StatusCode::kOk, "taken"},
       {absl::StatusCode::kOutOfRange, "pause_too_long"},
       {absl::StatusCode::kResourceExhausted, "no_room"},
       {absl::StatusCode::kFailedPrecondition, "cannot_be"},
       {absl::StatusCode::kAlreadyExists, "another_runs"},
       {absl::StatusCode::kUnavailable, "too_soon"},
       {absl::StatusCode::kDeadlineExceeded, "in_vain"},
       {absl::StatusCode::kNotFound, "program_gone"},
       {absl::StatusCode::kCancelled, "not_wanted"},
       {absl::StatusCode::kUnknown, "failed"}}};

  static std::size_t index_of(absl::StatusCode code) {
    // A target that was detached meanwhile counts as ended.
    if (code == absl::StatusCode::kAborted) code = absl::StatusCode::kNotFound;
    std::size_t index = 0;
    while (index + 1 < kNames.size() && kNames[index].code != code) ++index;
    return index;
  }

  mutable Mutex mutex_;
  std::array<std::uint64_t, kNames.size()> counts_ ABSL_GUARDED_BY(mutex_){};
  std::map<std::pair<std::uint64_t, int>, std::uint64_t> taken_ ABSL_GUARDED_BY(mutex_);
  Times times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
