// The runtime's own numbers, read from outside without its help.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/runtime_abi.h"

namespace memprofd {

struct GcStats {
  bool valid = false;
  double minor_words = 0;  // including the part of the minor heap in use
  double promoted_words = 0;
  double major_words = 0;
  std::uint64_t minor_collections = 0;
  std::uint64_t major_collections = 0;
  std::uint64_t compactions = 0;
  std::uint64_t heap_words = 0;
  std::uint64_t top_heap_words = 0;
  std::uint64_t heap_chunks = 0;
  std::array<memprof_pauses, MEMPROF_GC_PHASES> pauses{};  // measured while sampling
};

// Reads the counters of the domain state at caml_state while the program runs:
// each number is exact, but they may be some instructions apart, and young_ptr
// lags behind while OCaml code keeps it in a register. Leaves pauses empty.
// kDataLoss when the numbers cannot be counters.
absl::StatusOr<GcStats> read_gc_stats(const MemoryReader& memory, std::uint64_t caml_state,
                                      const RuntimeAbi& abi);

}  // namespace memprofd
