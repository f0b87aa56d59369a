// SPDX-License-Identifier: Apache-2.0
// OCaml 5: each domain has its own pools and large blocks. Those of domains that have ended are in
// lists of the process until another domain takes them.
//
//     pool, 4,096 words:  | next | next_obj | owner | class | wasted.. | slot | slot | .. | slot |
//     large block:        | owner | next | header | fields.. |
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/discover/target_memory.h"
#include "daemon/runtime/pool_offsets.h"
#include "daemon/snapshot/heap_lists.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

struct PoolHead {
  std::uint64_t next;
  std::uint64_t next_slot;
  std::uint64_t owner;
  std::uint64_t size_class;  // masked with pool_class_mask
};
static_assert(sizeof(PoolHead) == PoolHeap::kHeadWords * kWordBytes);

struct LargeHead {
  std::uint64_t owner;
  std::uint64_t next;
  std::uint64_t header;
};

// The lists of one owner, and their totals by its own count.
struct Owner {
  std::uint64_t state;  // 0: domains that have ended
  std::uint32_t domain;
  std::uint64_t pool_words;  // still to be found
  std::uint64_t large_words;
  std::uint64_t large_blocks;
};

template <std::size_t kBytes>
std::uint64_t word_at(const std::array<std::byte, kBytes>& bytes, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// Heads of pools. The runtime maps pools side by side, and lists them in another order. So the
// heads beside a requested one are read with it: more of them if recent ones were used, otherwise
// fewer.
class PoolHeads {
 public:
  explicit PoolHeads(const MemoryReader& memory) : memory_(memory) {}

  absl::StatusOr<PoolHead> at(std::uint64_t pool) {
    if (const auto known = known_.find(pool); known != known_.end()) {
      const PoolHead head = known->second;
      known_.erase(known);  // not needed again
      was_of_use_ = true;
      return head;
    }
    PoolHead head{};
    RETURN_IF_ERROR(memory_.read_value(pool, head));
    if (known_.size() > kMaxKnown) known_.clear();
    beside_ = std::exchange(was_of_use_, false) ? std::min(2 * beside_, kMaxBeside)
                                                : std::max(beside_ / 2, kMinBeside);
    RETURN_IF_ERROR(read_beside(pool, -kPoolBytes));
    RETURN_IF_ERROR(read_beside(pool, kPoolBytes));
    return head;
  }

 private:
  static constexpr std::int64_t kPoolBytes = PoolHeap::kPoolWords * kWordBytes;
  static constexpr std::size_t kMinBeside = 2;
  static constexpr std::size_t kMaxBeside = 200;
  static constexpr std::size_t kMaxKnown = 1u << 18;

  absl::Status read_beside(std::uint64_t pool, std::int64_t step) {
    heads_.resize(beside_);
    pieces_.clear();
    for (PoolHead& head : heads_) {
      pool += static_cast<std::uint64_t>(step);
      if (pool >= kEndOfMemory) break;
      pieces_.push_back({pool, std::as_writable_bytes(std::span<PoolHead, 1>(&head, 1))});
    }
    ASSIGN_OR_RETURN(const std::size_t read, read_pieces(memory_, pieces_));
    for (std::size_t i = 0; i < read; ++i) known_.try_emplace(pieces_[i].address, heads_[i]);
    return absl::OkStatus();
  }

  const MemoryReader& memory_;
  absl::flat_hash_map<std::uint64_t, PoolHead> known_;
  std::size_t beside_ = kMaxBeside / 2;  // on each side
  bool was_of_use_ = false;      // whether a head that was read beside the last one was used
  std::vector<PoolHead> heads_;  // from the last read
  std::vector<MemoryPiece> pieces_;
};

// Heads of large blocks, which malloc puts close to those that were allocated before or after.
class LargeHeads {
 public:
  explicit LargeHeads(const MemoryReader& memory) : memory_(memory), bytes_(kBytes) {}

  absl::Status read(std::uint64_t block, LargeHead& head) {
    const std::uint64_t begin = block & ~(kBytes - 1);
    const std::uint64_t offset = block - begin;
    if (begin != begin_) begin_ = memory_.read(begin, bytes_).ok() ? begin : kNone;
    if (begin != begin_ || offset > kBytes - sizeof head) return memory_.read_value(block, head);
    std::memcpy(&head, &bytes_[offset], sizeof head);
    return absl::OkStatus();
  }

 private:
  static constexpr std::uint64_t kBytes = 64 << 10;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  const MemoryReader& memory_;
  std::vector<std::byte> bytes_;
  std::uint64_t begin_ = kNone;  // range of these heads
};

// Detects a list that leads back to an earlier element (R. P. Brent's method).
class CircleCheck {
 public:
  bool is_back(std::uint64_t address) {
    if (address == before_) return true;
    if (++steps_ != until_) return false;
    until_ *= 2;
    before_ = address;
    return false;
  }

 private:
  std::uint64_t before_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t until_ = 1;
};

class PoolLister {
 public:
  PoolLister(const MemoryReader& memory, const PoolHeap& heap, std::uint64_t class_mask,
             HeapMap& map)
      : memory_(memory),
        pool_heads_(memory),
        large_heads_(memory),
        heap_(heap),
        class_mask_(class_mask),
        map_(map) {}

  absl::Status list_domain(std::uint64_t heap_state, std::uint64_t state, std::uint32_t domain) {
    std::array<std::byte, kHeapBytes> bytes = {};
    RETURN_IF_ERROR(memory_.read(heap_state, bytes));
    if (word_at(bytes, kHeapOwner) != state) {
      return bad_heap(
          fmt::format("the heap at {:#x} is not of the domain at {:#x}", heap_state, state));
    }
    Owner owner = count_in(bytes, kHeapStats, state, domain);
    for (std::uint32_t array = 0; array < kHeapPoolArrays; ++array) {
      RETURN_IF_ERROR(list_array(bytes, kHeapPoolLists, array, owner));
    }
    RETURN_IF_ERROR(list_large(word_at(bytes, kHeapLargeLists), owner));
    RETURN_IF_ERROR(list_large(word_at(bytes, kHeapLargeLists + kWordBytes), owner));
    return check_all_found(owner);
  }

  absl::Status list_orphans() {
    std::array<std::byte, kOrphanBytes> bytes = {};
    RETURN_IF_ERROR(memory_.read(heap_.orphans, bytes));
    Owner owner = count_in(bytes, kOrphanStats, 0, HeapRegion::kNoDomain);
    for (std::uint32_t array = 0; array < kOrphanPoolArrays; ++array) {
      RETURN_IF_ERROR(list_array(bytes, kOrphanPoolLists, array, owner));
    }
    RETURN_IF_ERROR(list_large(word_at(bytes, kOrphanLargeList), owner));
    return check_all_found(owner);
  }

 private:
  template <std::size_t kBytes>
  Owner count_in(const std::array<std::byte, kBytes>& bytes, std::size_t stats, std::uint64_t state,
                 std::uint32_t domain) {
    const Owner owner{.state = state,
                      .domain = domain,
                      .pool_words = word_at(bytes, stats + kStatPoolWords),
                      .large_words = word_at(bytes, stats + kStatLargeWords),
                      .large_blocks = word_at(bytes, stats + kStatLargeBlocks)};
    map_.sums.heap_words += owner.pool_words + owner.large_words;
    map_.sums.pool_blocks += word_at(bytes, stats + kStatPoolLiveBlocks);
    map_.sums.pool_block_words += word_at(bytes, stats + kStatPoolLiveWords);
    map_.sums.large_blocks += owner.large_blocks;
    map_.sums.large_words += owner.large_words;
    return owner;
  }

  template <std::size_t kBytes>
  absl::Status list_array(const std::array<std::byte, kBytes>& bytes, std::size_t lists,
                          std::uint32_t array, Owner& owner) {
    for (std::uint32_t i = 0; i < PoolHeap::kClasses; ++i) {
      const std::size_t list = array * PoolHeap::kClasses + i;
      RETURN_IF_ERROR(list_class(word_at(bytes, lists + list * kWordBytes), i, owner));
    }
    return absl::OkStatus();
  }

  // Pools that a domain has taken over may still have no owner.
  static bool may_own(const Owner& owner, std::uint64_t stored) {
    return stored == owner.state || stored == 0;
  }

  absl::Status list_class(std::uint64_t pool, std::uint32_t size_class, Owner& owner) {
    CircleCheck circle;
    while (pool != 0) {
      if (circle.is_back(pool)) return bad_heap("a list of pools has no end");
      ASSIGN_OR_RETURN(const PoolHead head, pool_heads_.at(pool));
      if ((head.size_class & class_mask_) != size_class || !may_own(owner, head.owner) ||
          pool % kWordBytes != 0 || owner.pool_words < PoolHeap::kPoolWords) {
        return bad_heap(fmt::format("the pool at {:#x} does not belong to its list", pool));
      }
      owner.pool_words -= PoolHeap::kPoolWords;
      const std::uint32_t slot_words = heap_.slot_words[size_class];
      const std::uint64_t slots = (PoolHeap::kPoolWords - PoolHeap::kHeadWords) / slot_words;
      const std::uint64_t end = pool + PoolHeap::kPoolWords * kWordBytes;
      RETURN_IF_ERROR(add({.begin = end - slots * slot_words * kWordBytes,
                           .words = slots * slot_words,
                           .slot_words = slot_words,
                           .domain = owner.domain,
                           .kind = RegionKind::kPool}));
      pool = head.next;
    }
    return absl::OkStatus();
  }

  absl::Status list_large(std::uint64_t block, Owner& owner) {
    CircleCheck circle;
    while (block != 0) {
      if (circle.is_back(block)) return bad_heap("a list of large blocks has no end");
      LargeHead head{};
      RETURN_IF_ERROR(large_heads_.read(block, head));
      const std::uint64_t words = words_with_header(head.header);
      if ((owner.state != 0 && head.owner != owner.state) || block % kWordBytes != 0 ||
          owner.large_blocks == 0 || owner.large_words < words + kLargeHeadWords) {
        return bad_heap(fmt::format("the large block at {:#x} does not belong to its list", block));
      }
      --owner.large_blocks;
      owner.large_words -= words + kLargeHeadWords;
      RETURN_IF_ERROR(add({.begin = block + kLargeHeadWords * kWordBytes,
                           .words = words,
                           .domain = owner.domain,
                           .kind = RegionKind::kLarge}));
      block = head.next;
    }
    return absl::OkStatus();
  }

  absl::Status add(const HeapRegion& region) {
    if (map_.regions.size() >= kMaxHeapRegions) {
      return absl::ResourceExhaustedError(
          fmt::format("the heap has more than {} pools and large blocks", kMaxHeapRegions));
    }
    map_.regions.push_back(region);
    return absl::OkStatus();
  }

  static absl::Status check_all_found(const Owner& owner) {
    if (owner.pool_words == 0 && owner.large_words == 0 && owner.large_blocks == 0) {
      return absl::OkStatus();
    }
    return bad_heap(fmt::format(
        "the lists of the domain at {:#x} lack {} words of pools and {} large blocks of {} words",
        owner.state, owner.pool_words, owner.large_blocks, owner.large_words));
  }

  const MemoryReader& memory_;
  PoolHeads pool_heads_;
  LargeHeads large_heads_;
  const PoolHeap& heap_;
  const std::uint64_t class_mask_;
  HeapMap& map_;
};

}  // namespace

absl::Status list_pools(const MemoryReader& memory, const RuntimeAbi& abi, const PoolHeap& heap,
                        std::span<const std::uint64_t> states, HeapMap& map) {
  std::array<std::uint64_t, 3> colours = {};  // marked, unmarked, garbage
  RETURN_IF_ERROR(memory.read_value(heap.colours, colours));
  map.colours = {.domains = true, .garbage = colours[2], .free_runs = abi.free_runs};
  PoolLister lister(memory, heap, abi.pool_class_mask, map);
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    std::uint64_t heap_state = 0;
    RETURN_IF_ERROR(memory.read_value(states[i] + abi.shared_heap, heap_state));
    RETURN_IF_ERROR(lister.list_domain(heap_state, states[i], i));
  }
  return lister.list_orphans();
}

}  // namespace memprofd
