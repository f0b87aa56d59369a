// What is counted: per target by heap and source, per callstack, and losses.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/aggregate/lifetime_histogram.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Which heap a block was allocated in, or, for deallocations, died in.
enum class Heap { kMinor = 0, kMajor = 1 };
inline constexpr int kHeaps = 2;

// Gc.Memprof.allocation_source.
enum class Source { kNormal = 0, kMarshal = 1, kCustom = 2 };
inline constexpr int kSources = 3;

// Counters of one callstack. deallocated[kMinor] died young, deallocated[kMajor]
// died after promotion or was allocated in the major heap.
struct CallstackCounters {
  Estimate allocated;
  Estimate promoted;
  Estimate live;
  std::array<Estimate, kHeaps> deallocated;
  LifetimeHistogram lifetime;

  CallstackCounters& operator+=(const CallstackCounters& other);
};

// Sums over the whole target.
struct TargetCounters {
  std::array<std::array<Estimate, kSources>, kHeaps> allocated;  // [heap][source]
  Estimate promoted;
  Estimate live;
  std::array<Estimate, kHeaps> deallocated;
  std::uint64_t alloc_events = 0;
  std::uint64_t promote_events = 0;
  std::uint64_t dealloc_events = 0;
};

}  // namespace memprofd
