// SPDX-License-Identifier: Apache-2.0
// Map of a heap: the memory regions that contain blocks, according to the runtime's own lists, and
// the rules that distinguish blocks in use from other contents.
//
// The lists are in the program's memory and may be hostile or torn: each is followed only as far as
// the runtime's own counters allow, and a heap that does not match them is rejected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/heap_layout.h"

namespace memprofd {

enum class RegionKind : std::uint8_t {
  kChunk,  // OCaml 4: consecutive blocks
  kPool,   // OCaml 5: slots of one size, each with a block or empty
  kLarge,  // OCaml 5: one block
  kMinor,  // consecutive blocks, youngest first
};

// Words of a large block of OCaml 5 before its header.
inline constexpr std::uint64_t kLargeHeadWords = 2;

struct HeapRegion {
  std::uint64_t begin = 0;  // address of the first header
  std::uint64_t words = 0;
  std::uint32_t slot_words = 0;  // size of a pool's slots, including headers
  std::uint32_t domain = 0;      // index of its state; kNoDomain: the domain has ended
  RegionKind kind = RegionKind::kChunk;

  std::uint64_t end() const { return begin + words * kWordBytes; }
  // Address of the runtime's own data before the blocks, if any.
  std::uint64_t head() const {
    if (kind == RegionKind::kPool) return end() - PoolHeap::kPoolWords * kWordBytes;
    return kind == RegionKind::kLarge ? begin - kLargeHeadWords * kWordBytes : begin;
  }
  static constexpr std::uint32_t kNoDomain = ~0u;
};

enum class BlockState : std::uint8_t {
  kUsed,      // live, or not known to be dead
  kDead,      // found dead by the collector, not swept: its fields may point anywhere
  kFree,      // free space, including its header
  kFragment,  // OCaml 4: a single word, too small for a block
};
inline constexpr int kBlockStates = 4;

// Meaning of the colours of a heap at the current moment.
struct HeapColours {
  bool domains = false;
  std::uint64_t garbage = 0;                  // OCaml 5: the colour of dead blocks
  std::uint64_t unswept = ~std::uint64_t{0};  // OCaml 4: white headers from here on are dead
  bool free_runs = false;                     // OCaml 5: as in RuntimeFacts

  // True if the header of a pool's slot, outside of a run, marks it as free.
  bool is_free_slot(std::uint64_t header) const {
    constexpr std::uint64_t kTagAndColour = 0x3ff, kNotMarkable = 0x300;
    return free_runs ? (header & kTagAndColour) == (kNotMarkable | kAbstractTag) : header == 0;
  }

  // Inline, because the walk calls it for each block.
  BlockState state_of(RegionKind kind, std::uint64_t address, std::uint64_t header) const {
    constexpr std::uint64_t kWhite = 0x000, kBlue = 0x200;
    if (kind == RegionKind::kMinor) {
      return fields_of(header) == 0 ? BlockState::kFragment : BlockState::kUsed;
    }
    const std::uint64_t colour = colour_of(header);
    if (domains) {
      if (kind == RegionKind::kPool && is_free_slot(header)) return BlockState::kFree;
      return colour == garbage ? BlockState::kDead : BlockState::kUsed;
    }
    if (colour == kBlue) return BlockState::kFree;
    if (colour != kWhite) return BlockState::kUsed;
    if (fields_of(header) == 0) return BlockState::kFragment;
    return address >= unswept ? BlockState::kDead : BlockState::kUsed;
  }
};

// The runtime's own counters.
struct RuntimeSums {
  std::uint64_t chunks = 0;       // OCaml 4
  std::uint64_t heap_words = 0;   // OCaml 4: of chunks; OCaml 5: of pools and large blocks
  std::uint64_t pool_blocks = 0;  // OCaml 5, includes blocks not swept yet
  std::uint64_t pool_block_words = 0;
  std::uint64_t large_blocks = 0;
  std::uint64_t large_words = 0;
};

struct HeapMap {
  std::vector<HeapRegion> regions;  // ordered by address, without overlaps
  HeapColours colours;
  RuntimeSums sums;
};

// Maximum number of regions (pools of 512 GiB).
inline constexpr std::uint64_t kMaxHeapRegions = 1u << 24;

// Reads the lists of a stopped program, all of whose threads are at points where the runtime has
// saved their state: a safe point or a blocking section. states: of its domains; in OCaml 4 only
// Caml_state. kDataLoss, in one line, if the lists do not match the runtime's sums.
absl::StatusOr<HeapMap> map_heap(const MemoryReader& memory, const HeapLayout& layout,
                                 std::span<const std::uint64_t> states);

}  // namespace memprofd
