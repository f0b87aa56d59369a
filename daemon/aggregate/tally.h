// SPDX-License-Identifier: Apache-2.0
// Events of the blocks of one class and one rate since they were last added to counters. It holds
// everything that an event changes in its class, in few and whole numbers. Weights are computed
// when it is added.
#pragma once

#include <cstdint>

#include "daemon/aggregate/class_cells.h"
#include "daemon/aggregate/counters.h"
#include "daemon/aggregate/death_counts.h"
#include "daemon/aggregate/interval.h"
#include "daemon/model/alloc_class.h"

namespace memprofd {

// Counts are in samples as defined by AllocClass::counted().
struct Tally {
  ClassId alloc_class;
  std::uint64_t allocated = 0;
  std::uint64_t promoted = 0;
  std::uint64_t never_followed = 0;  // part of allocated
  DeathCounts::Plain deaths;         // as if each sample represented one word

  void die(Heap heap, std::uint64_t lifetime_ns, std::uint64_t n) {
    deaths.add_block(heap, lifetime_ns, n, 1);
  }
  // each: weight for the class at the rate. block_words: AllocClass::block_words().
  void add_to(Counters& counters, const SampleWeight& each, double block_words) const;
  void add_to(IntervalCell& cell, const SampleWeight& each) const;
  // Clears the tally but keeps the memory.
  void clear() {
    allocated = promoted = never_followed = 0;
    deaths.clear();
  }
};

using Tallies = ClassCells<Tally>;

}  // namespace memprofd
