// SPDX-License-Identifier: Apache-2.0
// Facts about OCaml's release series: one table (releases.cc), one row per series.
//
// A fact about a series belongs there, not beside the code that uses it. A new row enables nothing:
// each capability is switched on in the row after its tests have passed there, and until then
// memprofd refuses it with a message (runtime_abi.h). A row that enables a capability without the
// facts that it needs does not compile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace memprofd {

enum class Capability : std::uint8_t {
  kAttach,      // sessions of the agent, whether injected or linked
  kDomains,     // sessions that sample every domain (OCaml 5)
  kCapture,     // kernel capture, which walks the stack with frame tables
  kWalk,        // agent capture, which also walks the stack with frame tables
  kObserve,     // observe mode
  kSnapshots,   // heap snapshots, with roots and sampled blocks
  kTypes,       // types of the source, from the compiler's files
  kValues,      // values of modules, read from the running program
  kCalls,       // counted calls of functions
  kCallTimes,   // durations of calls, and their allocations
  kRss,         // the OCaml heap as a part of resident memory
  kNativeHeap,  // calls of malloc and its relatives
};
inline constexpr int kCapabilities = 12;

class CapabilitySet {
 public:
  constexpr CapabilitySet() = default;
  constexpr CapabilitySet(std::initializer_list<Capability> all) {
    for (const Capability one : all) bits_ |= bit(one);
  }
  constexpr bool has(Capability one) const { return (bits_ & bit(one)) != 0; }

 private:
  static constexpr std::uint32_t bit(Capability one) { return 1u << static_cast<int>(one); }
  std::uint32_t bits_ = 0;
};

// An entry of Memprof, a sampled block (runtime/memprof.c), in words from the user data.
struct MemprofEntryLayout {
  std::int32_t block = 0;
  std::int32_t samples = 0;
  std::uint32_t words_behind = 0;  // words after the user data, including it
};

// Format of the compiler's .cmi and .cmt files (typing/types.mli, typedtree.mli).
struct TypedTree {
  int format = 0;                     // number in the magic of the files: 30 in Caml1999I030
  bool has_unit_application = false;  // Typedtree.module_expr has Tmod_apply_unit
  bool has_reason = false;            // Types.Type_abstract has an argument
  bool has_all_columns = false;       // debuginfo of the release is not truncated at columns
  bool has_atomic_loc = false;        // Typedtree.expression_desc has Texp_atomic_loc
  // Texp_letmodule, Texp_letexception and Texp_open are merged into Texp_struct_item, the last one.
  bool has_struct_item = false;
};

// Offsets are in bytes. An offset of 0, except for a first field, means that the series lacks the
// field.
struct RuntimeFacts {
  bool domains = false;     // OCaml 5: each domain has a state and a Memprof, each fiber a stack
  bool has_memprof = true;  // false: Gc.Memprof is a stub that raises

  // Domain state (runtime/caml/domain_state.tbl), to which Caml_state points.
  std::uint32_t young_limit = 0;
  std::uint32_t young_ptr = 0;
  std::uint32_t young_start = 0;  // followed by young_end
  std::uint32_t young_alloc_end = 0;
  std::uint32_t in_minor_collection = 0;  // OCaml 4
  std::uint32_t bottom_of_stack = 0;      // OCaml 4
  std::uint32_t last_return_address = 0;  // OCaml 4
  std::uint32_t current_stack = 0;        // OCaml 5: stack_info of the running fiber
  std::uint32_t gc_regs = 0;
  std::uint32_t local_roots = 0;         // local roots of C code
  std::uint32_t ephemerons = 0;          // OCaml 5: struct caml_ephe_info *
  std::uint32_t finalisers = 0;          // OCaml 5: struct caml_final_info *
  std::uint32_t external_interrupt = 0;  // OCaml 5: requested_external_interrupt
  std::uint32_t allocated_words = 0;  // OCaml 5: words allocated in the major heap since its last
                                      // slice
  std::uint32_t shared_heap = 0;      // OCaml 5
  std::uint32_t domain_index = 0;     // OCaml 5: reused by later domains
  std::uint32_t domain_id = 0;        // OCaml 5: unique
  std::uint32_t local_storage = 0;    // OCaml 5: the root of Domain.DLS
  // OCaml 4: struct Statistics. OCaml 5: three words, integers: minor, promoted, major.
  std::uint32_t stats = 0;
  std::uint32_t heap_chunks = 0;      // OCaml 4
  std::uint32_t memprof = 0;          // OCaml 5
  std::uint32_t memprof_trigger = 0;  // OCaml 5: memprof_young_trigger

  // A fiber's stack_info (runtime/caml/fiber.h).
  std::uint32_t fiber_end = 0;  // its handler, which points to the stack's fixed end
  std::uint32_t fiber_id = 0;   // unique among fibers

  // Major heap of OCaml 5 (runtime/shared_heap.c), in addition to pool_offsets.h.
  std::uint32_t pool_class_mask = 0;  // mask for the word that contains a pool's class
  // True if the first slot of a run of free ones has a header whose size is the number of further
  // free slots; the words of those are undefined. Otherwise each free slot begins with 0.
  bool free_runs = false;

  // Hooks that the runtime calls on a new domain. caml_domain_initialize_hook_exn returns unit or
  // an exception.
  std::string_view domain_hook;  // OCaml 5

  // Memprof (runtime/memprof.c).
  std::uint32_t memprof_config = 0;  // OCaml 5: in struct memprof_domain_s
  MemprofEntryLayout entry;
  // True if blocks allocated by C wait for their callbacks in one queue of the process, which any
  // thread may empty; false if each thread has a queue.
  bool one_postponed_queue = false;
  // True if a collection does not move the callstack of a sample whose callback is pending.
  bool callstacks_stay = false;

  bool end_lines = false;  // debuginfo has end lines
  TypedTree typed_tree;
};

struct Release {
  std::string_view series;
  // A runtime symbol that no earlier series has; empty: there is none.
  std::string_view first_symbol;
  CapabilitySet tested;
  RuntimeFacts facts;
};

// OCaml 4's struct Statistics, in the domain state.
struct StatisticsOfOcaml4 {
  double minor_words;
  double promoted_words;
  double major_words;
  std::uint64_t minor_collections;
  std::uint64_t major_collections;
  std::uint64_t heap_words;
  std::uint64_t top_heap_words;
  std::uint64_t compactions;
};
static_assert(sizeof(StatisticsOfOcaml4) == 64);

// One row for each known series, oldest first.
std::span<const Release> releases();

// True if a row contains the facts that its enabled capabilities need.
constexpr bool is_complete(const Release& release) {
  const RuntimeFacts& facts = release.facts;
  const auto needs = [&](Capability what, std::initializer_list<std::int64_t> offsets) {
    return !release.tested.has(what) || std::ranges::find(offsets, 0) == offsets.end();
  };
  const bool common =
      needs(Capability::kAttach, {facts.has_memprof}) &&
      needs(Capability::kSnapshots, {facts.gc_regs, facts.local_roots, facts.entry.block}) &&
      needs(Capability::kTypes, {facts.typed_tree.format});
  if (!facts.domains) {
    return common && needs(Capability::kCapture, {facts.last_return_address}) &&
           needs(Capability::kValues, {facts.in_minor_collection, facts.stats}) &&
           needs(Capability::kRss, {facts.stats, facts.heap_chunks});
  }
  return common &&
         needs(Capability::kAttach,
               {release.tested.has(Capability::kDomains), facts.external_interrupt, facts.memprof,
                facts.memprof_trigger, facts.memprof_config, facts.stats, facts.shared_heap,
                !facts.domain_hook.empty()}) &&
         needs(Capability::kObserve, {facts.current_stack, facts.domain_index, facts.stats}) &&
         needs(Capability::kSnapshots,
               {facts.ephemerons, facts.finalisers, facts.domain_id, facts.local_storage}) &&
         needs(Capability::kCallTimes, {facts.allocated_words, facts.fiber_end, facts.fiber_id}) &&
         needs(Capability::kRss, {facts.shared_heap, facts.local_roots, facts.pool_class_mask});
}

}  // namespace memprofd
