// SPDX-License-Identifier: Apache-2.0
// Counters: per target by heap and source, per allocation class, and losses.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/aggregate/death_counts.h"
#include "daemon/aggregate/late_entries.h"
#include "daemon/model/heap.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Counters of one allocation class, or of any sum of classes.
// deallocated[kMinor] died young, deallocated[kMajor] died after promotion or
// was allocated in the major heap.
struct Counters {
  Estimate allocated;
  Estimate promoted;
  Estimate live;
  Estimate resident;  // part of live, native heap: as of the last reading of its pages
  std::array<Estimate, kHeaps> deallocated;
  // Blocks: the words by those of one block.
  double allocated_objects = 0;
  double live_objects = 0;
  DeathCounts deaths;
  AgeCounts forgotten;  // when following ended without a death
  AgeCounts ages;       // of live, if requested (Aggregator::live_ages)
  LateEntries late;     // in counts of a range: blocks that were not watched from their birth

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

// Sums over the whole target, but for C's memory.
struct TargetCounters {
  std::array<std::array<Estimate, kMemprofSources>, kHeaps> allocated;  // [heap][source]
  Estimate promoted;
  Estimate live;
  std::array<Estimate, kHeaps> deallocated;
  std::uint64_t alloc_events = 0;
  std::uint64_t promote_events = 0;
  std::uint64_t dealloc_events = 0;
  std::uint64_t unsampled_words = 0;  // between two sessions, of OCaml 5
  // Live memory when blocks were last forgotten and whose end is unknown; of two times within
  // Aggregator::kForgottenNs the larger. Then, the time since which only later blocks are followed.
  Estimate forgotten_live;
  std::uint64_t forgotten_ns = 0;  // on the clock of records; 0: never

  Estimate all_allocated() const;
  // The dead or no longer followed part of everything that was allocated.
  double gone_words() const;
};

}  // namespace memprofd
