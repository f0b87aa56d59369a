// SPDX-License-Identifier: Apache-2.0
// Heaps of OCaml 4 and 5 built by a test, word by word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/runtime/pool_offsets.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {

constexpr std::uint64_t kWhite = 0x000;
constexpr std::uint64_t kBlue = 0x200;
constexpr std::uint64_t kBlack = 0x300;

constexpr std::uint64_t header(std::uint64_t fields, unsigned tag, std::uint64_t colour = kBlack) {
  return fields << 10 | colour | tag;
}

// A header and its fields, all with the same value.
inline std::vector<std::uint64_t> block(std::uint64_t fields, unsigned tag,
                                        std::uint64_t colour = kBlack, std::uint64_t value = 1) {
  std::vector<std::uint64_t> words(fields + 1, value);
  words[0] = header(fields, tag, colour);
  return words;
}

inline std::vector<std::uint64_t> joined(const std::vector<std::vector<std::uint64_t>>& blocks) {
  std::vector<std::uint64_t> words;
  for (const auto& part : blocks) words.insert(words.end(), part.begin(), part.end());
  return words;
}

// A program's memory; its variables are in a page at the front.
class FakeHeap {
 public:
  static constexpr std::uint64_t kBase = 0x10000;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kVariables = kBase;     // named by the layout
  static constexpr std::uint64_t kState = kBase + 1024;  // state of the domain

  explicit FakeHeap(const std::string& version) : abi(runtime_abi_for(version).value()) {
    for (int i = 0; i < 512; ++i) memory.put(std::uint64_t{0});
  }

  std::uint64_t put(const std::vector<std::uint64_t>& words) {
    const std::uint64_t at = memory.end();
    for (const std::uint64_t word : words) memory.put(word);
    return at;
  }
  void poke_state(std::uint32_t offset, std::uint64_t value) {
    memory.poke(kState + offset, value);
  }
  void put_minor_heap(const std::vector<std::uint64_t>& words) {
    poke_state(abi.young_ptr, put(words));
    poke_state(abi.young_alloc_end, memory.end());
  }

  FakeMemory memory{kBase};
  RuntimeAbi abi;
};

// Heap of OCaml 4. The runtime's sums follow each added chunk.
class FakeChunks : public FakeHeap {
 public:
  explicit FakeChunks(const std::string& version = "4.13.1", std::uint64_t head_bytes = 48)
      : FakeHeap(version), head_bytes_(head_bytes) {}

  // Adds a chunk with the words, filled up to a page by a free block. Returns its address.
  std::uint64_t put_chunk(std::vector<std::uint64_t> words) {
    const std::uint64_t left = kPage / 8 - words.size() % (kPage / 8);
    const auto rest = block(left - 1, 0, kBlue);
    words.insert(words.end(), rest.begin(), rest.end());
    while ((memory.end() + head_bytes_) % kPage != 0) memory.put(std::uint64_t{0});
    std::vector<std::uint64_t> head(head_bytes_ / 8);
    head[2] = words.size() * 8;
    put(head);
    const std::uint64_t at = put(words);
    memory.poke(last_ == 0 ? kVariables : last_ - head_bytes_ + 24, at);
    last_ = at;
    add_to_sums(1, words.size());
    return at;
  }
  void add_to_sums(std::uint64_t chunks, std::uint64_t words) {
    poke_state(abi.stats + 40, words_ += words);
    poke_state(abi.heap_chunks, chunks_ += chunks);
  }
  void sweep_from(std::uint64_t address) {
    memory.poke(kVariables + 8, std::uint32_t{2});
    memory.poke(kVariables + 16, address);
  }

  HeapLayout layout() const {
    return {abi, ChunkHeap{kVariables, kVariables + 8, kVariables + 16}};
  }
  absl::StatusOr<HeapMap> map() const {
    return map_heap(memory, layout(), std::vector<std::uint64_t>{kState});
  }

 private:
  std::uint64_t head_bytes_;
  std::uint64_t last_ = 0;
  std::uint64_t words_ = 0;
  std::uint64_t chunks_ = 0;
};

// Heap of OCaml 5, with slot classes of 1, 2, .. 31 and 128 words.
class FakePools : public FakeHeap {
 public:
  static constexpr std::uint64_t kGarbage = 0x200;
  static constexpr std::uint64_t kStale = 0x5a5a5a5a5a5a;  // an invalid block

  explicit FakePools(const std::string& version = "5.3.0") : FakeHeap(version) {
    memory.poke(kVariables, std::uint64_t{0});          // marked
    memory.poke(kVariables + 8, std::uint64_t{0x100});  // unmarked
    memory.poke(kVariables + 16, std::uint64_t{kGarbage});
    heap_state_ = put(std::vector<std::uint64_t>(kHeapBytes / 8));
    orphans_ = put(std::vector<std::uint64_t>(kOrphanBytes / 8));
    poke_state(abi.shared_heap, heap_state_);
    memory.poke(heap_state_ + kHeapOwner, kState);
  }

  // Adds a pool of the class with these blocks, one per slot, then free slots, at the front of a
  // list of the domain. Returns its address.
  std::uint64_t put_pool(std::uint32_t size_class,
                         const std::vector<std::vector<std::uint64_t>>& blocks, int array = 0) {
    const std::uint64_t list =
        heap_state_ + kHeapPoolLists + (static_cast<std::uint64_t>(array) * 32 + size_class) * 8;
    const std::uint64_t pool = put_pool_in(list, kState, size_class, blocks);
    add(heap_state_ + kHeapStats, blocks);
    return pool;
  }
  std::uint64_t put_orphan(std::uint32_t size_class,
                           const std::vector<std::vector<std::uint64_t>>& blocks) {
    const std::uint64_t pool =
        put_pool_in(orphans_ + kOrphanPoolLists + size_class * 8, 0, size_class, blocks);
    add(orphans_ + kOrphanStats, blocks);
    return pool;
  }
  std::uint64_t put_large(const std::vector<std::uint64_t>& words) {
    const std::uint64_t list = heap_state_ + kHeapLargeLists;
    const std::uint64_t at = put({kState, word(list)});
    put(words);
    memory.poke(list, at);
    const std::uint64_t stats = heap_state_ + kHeapStats;
    add_to(stats + kStatLargeWords, words.size() + 2);
    add_to(stats + kStatLargeBlocks, 1);
    return at;
  }
  void add_to(std::uint64_t address, std::uint64_t value) {
    memory.poke(address, word(address) + value);
  }

  std::uint64_t word(std::uint64_t address) const {
    std::uint64_t value = 0;
    (void)memory.read_value(address, value);
    return value;
  }
  std::uint64_t heap_state() const { return heap_state_; }
  HeapLayout layout() const {
    PoolHeap heap{.colours = kVariables, .orphans = orphans_};
    for (std::uint32_t i = 0; i < 32; ++i) heap.slot_words[i] = i == 31 ? 128 : i + 1;
    return {abi, heap};
  }
  absl::StatusOr<HeapMap> map() const {
    return map_heap(memory, layout(), std::vector<std::uint64_t>{kState});
  }

 private:
  std::uint64_t put_pool_in(std::uint64_t list, std::uint64_t owner, std::uint32_t size_class,
                            const std::vector<std::vector<std::uint64_t>>& blocks) {
    const std::uint64_t slot = size_class == 31 ? 128 : size_class + 1;
    // Other bits of the word have no meaning.
    const std::uint64_t beside = ~std::uint64_t{abi.pool_class_mask} & kStale;
    std::vector<std::uint64_t> words{word(list), 0, owner, size_class | beside};
    words.resize(4 + (PoolHeap::kPoolWords - 4) % slot);
    for (const auto& one : blocks) {
      words.insert(words.end(), one.begin(), one.end());
      words.resize(words.size() + (slot - one.size()), kStale);
    }
    const std::uint64_t free = (PoolHeap::kPoolWords - words.size()) / slot;
    if (abi.free_runs && free > 0) words.push_back(header(free - 1, kAbstractTag));
    words.resize(PoolHeap::kPoolWords, abi.free_runs ? kStale : 0);
    const std::uint64_t at = put(words);
    memory.poke(list, at);
    return at;
  }
  void add(std::uint64_t stats, const std::vector<std::vector<std::uint64_t>>& blocks) {
    add_to(stats + kStatPoolWords, PoolHeap::kPoolWords);
    for (const auto& one : blocks) {
      add_to(stats + kStatPoolLiveWords, one.size());
      add_to(stats + kStatPoolLiveBlocks, 1);
    }
  }

  std::uint64_t heap_state_ = 0;
  std::uint64_t orphans_ = 0;
};

}  // namespace memprofd
