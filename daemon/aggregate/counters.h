// SPDX-License-Identifier: Apache-2.0
// Counters: per target by heap and source, and per allocation class; and losses.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/aggregate/death_counts.h"
#include "daemon/aggregate/late_entries.h"
#include "daemon/model/heap.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Counters of one allocation class or of any sum of classes. Blocks in deallocated[kMinor] died
// young; those in deallocated[kMajor] were promoted or allocated in the major heap.
struct Counters {
  Estimate allocated;
  Estimate promoted;
  Estimate live;
  Estimate resident;  // native heap: the part of live that was resident at the last scan
  std::array<Estimate, kHeaps> deallocated;
  // Number of blocks: words divided by the words of one block.
  double allocated_objects = 0;
  double live_objects = 0;
  DeathCounts deaths;
  AgeCounts forgotten;  // blocks that were no longer followed before they died
  AgeCounts ages;       // of live, if requested (Aggregator::live_ages)
  LateEntries late;  // in counts of a range: blocks that were not observed from their allocation on

  // block_words: AllocClass::block_words().
  void add_allocated(std::uint64_t n_samples, const SampleWeight& each, double block_words) {
    allocated.add(n_samples, each);
    allocated_objects += static_cast<double>(n_samples) * each.words / block_words;
  }
  void remove_allocated(std::uint64_t n_samples, const SampleWeight& each, double block_words) {
    allocated.subtract(n_samples, each);
    allocated_objects =
        allocated.samples == 0
            ? 0
            : allocated_objects - static_cast<double>(n_samples) * each.words / block_words;
  }
  void add_live(std::uint64_t n_samples, const SampleWeight& each, double block_words) {
    live.add(n_samples, each);
    live_objects += static_cast<double>(n_samples) * each.words / block_words;
  }
  void remove_live(std::uint64_t n_samples, const SampleWeight& each, double block_words) {
    live.subtract(n_samples, each);
    live_objects = live.samples == 0
                       ? 0
                       : live_objects - static_cast<double>(n_samples) * each.words / block_words;
  }
  Counters& operator+=(const Counters& other);
};

// Sums over the whole target, without the native heap.
struct TargetCounters {
  std::array<std::array<Estimate, kMemprofSources>, kHeaps> allocated;  // [heap][source]
  Estimate promoted;
  Estimate live;
  std::array<Estimate, kHeaps> deallocated;
  std::uint64_t alloc_events = 0;
  std::uint64_t promote_events = 0;
  std::uint64_t dealloc_events = 0;
  std::uint64_t unsampled_words = 0;  // allocated between two sessions, in OCaml 5
  // Live memory at the time blocks were last forgotten, whose end is unknown. If that happened
  // twice within Aggregator::kForgottenNs, the larger. Next, the time since which only newer blocks
  // are followed.
  Estimate forgotten_live;
  std::uint64_t forgotten_ns = 0;  // clock of records; 0: never

  Estimate all_allocated() const;
  // The part of all allocations that died or is no longer followed.
  double gone_words() const;
};

}  // namespace memprofd
