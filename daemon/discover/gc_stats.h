// SPDX-License-Identifier: Apache-2.0
// The runtime's own numbers, read from outside without its help.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

struct GcStats {
  bool valid = false;
  double minor_words = 0;  // including the part of the minor heap in use
  double promoted_words = 0;
  double major_words = 0;
  std::uint64_t minor_collections = 0;
  std::uint64_t major_collections = 0;
  std::uint64_t compactions = 0;
  std::uint64_t heap_words = 0;  // 0: not known
  std::uint64_t top_heap_words = 0;
  std::uint64_t heap_chunks = 0;
  std::optional<std::uint64_t> free_words;                 // part of heap_words; nullopt: unknown
  std::uint64_t minor_heap_words = 0;                      // total of all domains; 0: unknown
  std::array<memprof_pauses, MEMPROF_GC_PHASES> pauses{};  // measured while sampling
};

// Addresses of counters of the whole program.
struct GcCounters {
  std::uint64_t free_words = 0;  // OCaml 4; those that follow are of OCaml 5
  std::uint64_t minor_collections = 0;
  std::uint64_t major_cycles = 0;
  std::uint64_t compactions = 0;
};

// OCaml 5: one domain, as reported by the agent.
struct DomainGc {
  std::uint64_t state = 0;  // address
  std::uint64_t heap_bytes = 0;
  std::array<std::uint64_t, 3> base_words{};  // minor, promoted, major, when it began
};

// The same for OCaml 5, summed over domains. ended_words: total of ended domains; those that ended
// before the agent was loaded are missing. There are no heap chunks, and the largest heap is
// unknown.
absl::StatusOr<GcStats> read_domain_gc_stats(const MemoryReader& memory, const RuntimeAbi& abi,
                                             const GcCounters& counters,
                                             std::span<const DomainGc> domains,
                                             const std::array<std::uint64_t, 3>& ended_words);

// The same in observe mode: words are those of the hits, which lag by up to a minor heap per
// domain. The heap is unknown.
absl::StatusOr<GcStats> read_observed_gc_stats(const MemoryReader& memory,
                                               const GcCounters& counters,
                                               const std::array<double, 3>& words);

// Reads the counters of the domain state at caml_state while the program runs. Each number is
// exact, but they may be some instructions apart, and young_ptr lags while OCaml code keeps it in a
// register. Leaves pauses empty. kDataLoss if the numbers cannot be counters.
absl::StatusOr<GcStats> read_gc_stats(const MemoryReader& memory, std::uint64_t caml_state,
                                      const RuntimeAbi& abi, const GcCounters& counters = {});

}  // namespace memprofd
