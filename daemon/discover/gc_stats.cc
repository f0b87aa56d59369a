// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/gc_stats.h"

#include <algorithm>
#include <cmath>

#include "daemon/discover/minor_heap.h"
#include "daemon/discover/target_memory.h"
#include "daemon/runtime/pool_offsets.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMaxCount = 1ull << 60;

bool plausible(double words) { return std::isfinite(words) && words >= 0 && words < 1e21; }
bool plausible(std::uint64_t count) { return count < kMaxCount; }

// OCaml 5: reads the counters of the whole program. A missing counter means that the runtime lacks
// the feature: 5.0 and 5.1 never compact.
absl::Status read_counters(const MemoryReader& memory, const GcCounters& counters, GcStats& stats) {
  MemoryQuestion question;
  question.about(counters.minor_collections, stats.minor_collections)
      .about(counters.major_cycles, stats.major_collections);
  if (counters.compactions != 0) question.about(counters.compactions, stats.compactions);
  return question.ask(memory);
}

// Words in use in the minor heap, which fills from young_alloc_end downwards.
std::uint64_t words_in_use(std::uint64_t young_ptr, std::uint64_t young_alloc_end) {
  const std::uint64_t bytes = young_alloc_end - young_ptr;
  return young_alloc_end >= young_ptr && bytes < kMaxMinorHeapBytes ? bytes / 8 : 0;
}

// OCaml 5: counters of one domain.
struct DomainWords {
  std::array<std::uint64_t, 3> words = {};
  std::uint64_t young_ptr = 0, young_end = 0;
  MinorHeap minor_heap;
  std::uint64_t shared_heap = 0;
};

absl::Status read_domain(const MemoryReader& memory, const RuntimeAbi& abi, std::uint64_t state,
                         DomainWords& domain) {
  return MemoryQuestion()
      .about(state + abi.stats, domain.words)
      .about(state + abi.young_ptr, domain.young_ptr)
      .about(state + abi.young_alloc_end, domain.young_end)
      .about(state + abi.young_start, domain.minor_heap)
      .about(state + abi.shared_heap, domain.shared_heap)
      .ask(memory);
}

// OCaml 5: a domain's heap by its own statistics, in words.
struct HeapWords {
  std::uint64_t pools = 0, live_in_pools = 0, large = 0;
};

// Nothing if unknown.
std::optional<HeapWords> read_heap(const MemoryReader& memory, std::uint64_t heap) {
  HeapWords words;
  const bool read = MemoryQuestion()
                        .about(heap + kHeapStats + kStatPoolWords, words.pools)
                        .about(heap + kHeapStats + kStatPoolLiveWords, words.live_in_pools)
                        .about(heap + kHeapStats + kStatLargeWords, words.large)
                        .ask(memory)
                        .ok();
  if (!read || !plausible(words.pools)) return std::nullopt;
  return words;
}

// Adds the room of a domain. agent_bytes: its heap as the agent reports it; 0: it has not, before
// the domain's first collection. If the free words of one domain are unknown, the sum is unknown.
void add_room(const MemoryReader& memory, const DomainWords& domain, std::uint64_t agent_bytes,
              GcStats& stats) {
  if (is_minor_heap(domain.minor_heap)) stats.minor_heap_words += domain.minor_heap.words();
  const std::optional<HeapWords> heap = read_heap(memory, domain.shared_heap);
  if (agent_bytes != 0) {
    stats.heap_words += agent_bytes / 8;
  } else if (heap && plausible(heap->large)) {
    stats.heap_words += heap->pools + heap->large;
  }
  if (stats.free_words && heap && heap->live_in_pools <= heap->pools) {
    *stats.free_words += heap->pools - heap->live_in_pools;
  } else {
    stats.free_words.reset();
  }
}

}  // namespace

absl::StatusOr<GcStats> read_gc_stats(const MemoryReader& memory, std::uint64_t caml_state,
                                      const RuntimeAbi& abi, const GcCounters& counters) {
  StatisticsOfOcaml4 words = {};
  std::uint64_t heap_chunks = 0;
  std::uint64_t young_ptr = 0;
  std::uint64_t young_alloc_end = 0;
  std::uint64_t free_words = 0;
  MinorHeap minor_heap;
  MemoryQuestion question;
  question.about(caml_state + abi.stats, words)
      .about(caml_state + abi.heap_chunks, heap_chunks)
      .about(caml_state + abi.young_ptr, young_ptr)
      .about(caml_state + abi.young_alloc_end, young_alloc_end)
      .about(caml_state + abi.young_start, minor_heap);
  if (counters.free_words != 0) question.about(counters.free_words, free_words);
  RETURN_IF_ERROR(question.ask(memory));
  if (!plausible(words.minor_words) || !plausible(words.promoted_words) ||
      !plausible(words.major_words) || !plausible(words.minor_collections) ||
      !plausible(words.major_collections) || !plausible(words.heap_words) ||
      !plausible(words.top_heap_words) || !plausible(words.compactions) ||
      !plausible(heap_chunks)) {
    return absl::DataLossError("the runtime's counters are not readable numbers");
  }
  GcStats stats;
  stats.valid = true;
  stats.minor_words =
      words.minor_words + static_cast<double>(words_in_use(young_ptr, young_alloc_end));
  stats.promoted_words = words.promoted_words;
  stats.major_words = words.major_words;
  stats.minor_collections = words.minor_collections;
  stats.major_collections = words.major_collections;
  stats.compactions = words.compactions;
  stats.heap_words = words.heap_words;
  stats.top_heap_words = words.top_heap_words;
  stats.heap_chunks = heap_chunks;
  if (is_minor_heap(minor_heap)) stats.minor_heap_words = minor_heap.words();
  if (counters.free_words != 0) stats.free_words = std::min(free_words, stats.heap_words);
  return stats;
}

absl::StatusOr<GcStats> read_domain_gc_stats(const MemoryReader& memory, const RuntimeAbi& abi,
                                             const GcCounters& counters,
                                             std::span<const DomainGc> domains,
                                             const std::array<std::uint64_t, 3>& ended_words) {
  std::array<std::uint64_t, 3> words = ended_words;
  GcStats stats;
  RETURN_IF_ERROR(read_counters(memory, counters, stats));
  if (!domains.empty()) stats.free_words = 0;
  for (const DomainGc& domain : domains) {
    DomainWords own;
    RETURN_IF_ERROR(read_domain(memory, abi, domain.state, own));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] += own.words[i] - domain.base_words[i];
    words[0] += words_in_use(own.young_ptr, own.young_end);
    add_room(memory, own, domain.heap_bytes, stats);
  }
  if (!plausible(stats.minor_collections) || !plausible(stats.major_collections) ||
      !plausible(stats.compactions) || !plausible(stats.heap_words) ||
      !std::ranges::all_of(words, [](std::uint64_t n) { return plausible(n); })) {
    return absl::DataLossError("the runtime's counters are not readable numbers");
  }
  stats.valid = true;
  stats.minor_words = static_cast<double>(words[0]);
  stats.promoted_words = static_cast<double>(words[1]);
  stats.major_words = static_cast<double>(words[2]);
  return stats;
}

absl::StatusOr<GcStats> read_observed_gc_stats(const MemoryReader& memory,
                                               const GcCounters& counters,
                                               const std::array<double, 3>& words) {
  if (words[0] <= 0) return absl::NotFoundError("no domain was seen yet");
  GcStats stats;
  RETURN_IF_ERROR(read_counters(memory, counters, stats));
  if (!plausible(stats.minor_collections) || !plausible(stats.major_collections) ||
      !plausible(stats.compactions)) {
    return absl::DataLossError("the runtime's counters are not readable numbers");
  }
  stats.valid = true;
  stats.minor_words = words[0];
  stats.promoted_words = words[1];
  stats.major_words = words[2];
  return stats;
}

}  // namespace memprofd
