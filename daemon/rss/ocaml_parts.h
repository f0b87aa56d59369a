// SPDX-License-Identifier: Apache-2.0
// Finds the heaps, stacks and tables of the OCaml runtime in a running program. Memory that the
// runtime allocates with malloc is found among malloc's chunks: OCaml 5 has no symbol that leads to
// its domains, and no thread does while all of them wait.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/rss/extent_layer.h"
#include "daemon/rss/malloc_walk.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/runtime_shapes.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"

namespace memprofd {

struct OcamlRuntime {
  RuntimeAbi abi;
  std::optional<HeapLayout> layout;  // unset: the heap's layout is not understood
  std::string why_no_heap;           // in that case, one line
  // Addresses in the process; 0 if there is none.
  std::uint64_t state_pointer = 0;  // OCaml 4: Caml_state
  std::uint64_t free_words = 0;     // OCaml 4: caml_fl_cur_wsz
  std::uint64_t percent_free = 0;
};

// kFailedPrecondition if it is not an OCaml program, or its version is unknown.
absl::StatusOr<OcamlRuntime> find_ocaml_runtime(const ElfFile& program, std::uint64_t load_bias);

// Size of the heap according to the runtime's own counters, in bytes.
struct OcamlCounts {
  bool known = false;
  std::uint64_t heap = 0;  // size of the major heap, resident or not
  std::uint64_t free = 0;  // free part of heap
  // OCaml 5: estimate of the part of free that pools keep when the heap is compacted.
  std::uint64_t free_kept = 0;
  std::uint64_t domains = 0;
  std::uint64_t percent_free = 0;  // space_overhead; 0: unknown
  // Numbers of other parts.
  std::uint64_t channels = 0;
  std::uint64_t stacks = 0;      // OCaml 5; includes those kept for later fibers
  std::uint64_t lost_pools = 0;  // OCaml 5
};

class OcamlParts {
 public:
  // All arguments must outlive this. heap: the map of a stopped program's heap, if its lists have
  // been followed already; null: they are followed here.
  OcamlParts(const MemoryReader& memory, const OcamlRuntime& runtime, const HeapMap* heap)
      : memory_(memory), runtime_(runtime), heap_(heap) {}

  // Examines a chunk of malloc in use: remembers domains and large blocks, and recognises stacks of
  // fibers.
  std::optional<RssClass> check_chunk(std::uint64_t user, std::uint64_t bytes);

  // Adds the results to an unsealed layer above malloc's chunks, once all arenas have been walked.
  // The first call, before chunks with mappings of their own are known, finds the heaps.
  void find_heaps(ExtentLayer& out);
  // channels: receives channels separately, because custom blocks may hold them.
  void find_tables(const MallocWalk& chunks, ExtentLayer& out, ExtentLayer& channels);
  // Finds pools of OCaml 5 that were in no list of the runtime when these were read, in a range of
  // anonymous memory. runs: as for walk_mapped(); known: must be sealed.
  void find_unlisted_pools(const AddressSpan& span, std::span<const AddressSpan> runs,
                           std::span<const ExtentLayer* const> known);
  // Adds the unlisted pools of all ranges: those that are in a list by now were mapped or moved
  // meanwhile; all others are lost. resident: the same memory, for reads of what is resident.
  void add_unlisted_pools(const MemoryReader& resident, ExtentLayer& out);

  // The heaps that were found, for a walk of their blocks. The program is running, so they may end
  // in the middle of a block.
  HeapMap heap_map() const;

  const OcamlCounts& counts() const { return counts_; }
  // The sizes of OCaml 4's chunks in bytes, in the order of the runtime's list.
  const std::vector<std::uint64_t>& chunks() const { return chunks_; }
  // True if the whole heap was found. Domains of OCaml 5 are found among all chunks.
  bool is_known(bool all_chunks) const {
    return why_no_heap_.empty() && (all_chunks || !runtime_.abi.domains);
  }
  const std::string& why_no_heap() const { return why_no_heap_; }  // empty: the heap is known

 private:
  void find_major_heap(ExtentLayer& out);
  void find_chunk_heap(ExtentLayer& out);
  // Addresses of lists and statistics of OCaml 5.
  struct PoolLists {
    std::uint64_t stats = 0;
    std::uint64_t pools = 0;
    std::size_t pool_lists = 0;
    std::uint64_t large = 0;
    std::size_t large_lists = 0;
  };
  std::vector<PoolLists> pool_lists() const;  // of all domains, and of those that have ended
  const PoolHeap* pool_layout() const;        // null: there are no pools, or the layout is unknown
  void find_pool_heaps(ExtentLayer& out);
  void find_pool_heap(const PoolLists& lists, ExtentLayer& out);
  // room: maximum number of pools; decreased by those that were found.
  void follow_pools(std::uint64_t first, RssClass kind, std::uint64_t& room, ExtentLayer& out);
  // The lists of pools, read at once but for the program's moves in between.
  struct PoolView {
    std::vector<std::uint64_t> firsts;  // of the lists of pools in use
    std::uint64_t first_free = 0;
    absl::flat_hash_map<std::uint64_t, PoolHead> heads;  // of all known pools, by address
  };
  using PoolKinds = absl::flat_hash_map<std::uint64_t, RssClass>;
  PoolView view_pools(const MemoryReader& resident) const;
  static PoolKinds pools_in_lists(const MemoryReader& resident, const PoolView& view);
  void add_pool(std::uint64_t pool, RssClass kind, ExtentLayer& out);
  void follow_large(std::uint64_t first, std::uint64_t& room, ExtentLayer& out);
  void note_large_block(std::uint64_t user, std::uint64_t bytes);
  bool add_large_block(std::uint64_t block, std::uint64_t words, ExtentLayer& out);
  void add_pool_region(std::uint64_t pool);
  void add_minor_heap(std::uint64_t state, ExtentLayer& out);
  void add_table(const MallocWalk& chunks, std::uint64_t user, RssClass kind);
  void find_tables_of(const MallocWalk& chunks, std::uint64_t state,
                      std::vector<std::uint64_t>& users);
  void add_remembered_sets(const MallocWalk& chunks, std::span<const std::uint64_t> words);

  // OCaml 5: a chunk that a large block fills, if that is its domain.
  struct LargeChunk {
    std::uint64_t block = 0;   // address of what precedes the block's header
    std::uint64_t words = 0;   // from there on
    std::uint64_t domain = 0;  // 0: that has ended
  };

  const MemoryReader& memory_;
  const OcamlRuntime& runtime_;
  const HeapMap* const heap_;
  std::vector<std::uint64_t> heap_states_;  // OCaml 5: struct caml_heap_state of each domain
  std::vector<std::uint64_t> states_;       // domain states
  std::vector<LargeChunk> large_chunks_;
  std::set<std::uint64_t> large_blocks_;  // known ones, by address
  std::vector<ChannelChunks> channels_;
  std::vector<std::uint64_t> frame_tables_;  // addresses of the chunks, as users see them
  std::map<std::uint64_t, Extent> tables_;   // by begin address
  OcamlCounts counts_;
  std::vector<HeapRegion> regions_;
  std::vector<std::uint64_t> listed_pools_;  // free ones too
  std::vector<std::uint64_t> unlisted_pools_;
  std::vector<std::uint64_t> chunks_;
  std::string why_no_heap_;
};

}  // namespace memprofd
