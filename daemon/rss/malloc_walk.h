// SPDX-License-Identifier: Apache-2.0
// Walks the consecutive chunks of glibc's malloc: in use, free, or in a cache.
//
//     | previous size | size and 3 bits | user's bytes .. | previous size | ..
//     ^ chunk                           ^ user's address
//
// A chunk is free if PREV_INUSE of the next one is clear. Chunks in caches look used; the lists of
// tcaches and fastbins reveal them. The process may run meanwhile: if sizes are inconsistent, the
// walk searches for the next consistent address, and the memory in between is unknown.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "daemon/rss/extent_layer.h"
#include "daemon/rss/glibc_arenas.h"
#include "daemon/rss/mapping_classes.h"

namespace memprofd {

struct MallocOptions {
  std::uint64_t max_chunks = std::uint64_t{1} << 26;
  std::size_t max_kept = 0;  // maximum number of chunks in kept()
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop = {};
};

// A chunk in use, with the address and size that its owner sees.
struct MallocChunk {
  std::uint64_t user = 0;   // address that malloc returned
  std::uint64_t bytes = 0;  // usable bytes, as malloc_usable_size() returns

  friend bool operator==(const MallocChunk&, const MallocChunk&) = default;
};

class MallocWalk {
 public:
  // Called for a chunk in use, with the user's address and bytes. Returns its class if the visitor
  // recognises it.
  using Visitor = std::function<std::optional<RssClass>(std::uint64_t, std::uint64_t)>;

  // memory must outlive this.
  MallocWalk(const MemoryReader& memory, Visitor visitor, MallocOptions options)
      : memory_(memory), visitor_(std::move(visitor)), options_(options) {}

  // Names the extents arena number + 1.
  void walk_arena(const Arena& arena, std::uint32_t number,
                  const std::vector<AddressSpan>& break_heap);
  // Walks chunks with mappings of their own, in a range of anonymous memory. runs: its resident
  // parts, in the order of addresses; covered: parts whose class is already known.
  void walk_mapped(const AddressSpan& span, std::span<const AddressSpan> runs,
                   const ExtentLayer& covered);
  // Finds the free chunks in tcaches and the arenas' fastbins, which were counted as in use.
  void find_cached(const std::vector<Arena>& arenas);

  ExtentLayer& chunks() { return chunks_; }  // must be sealed before find_cached()
  ExtentLayer& cached() { return cached_; }  // layer above chunks()
  std::uint64_t walked() const { return walked_; }
  std::uint64_t mapped() const { return mapped_; }
  // Chunks in use that the visitor did not recognise, including cached ones.
  std::vector<MallocChunk>& kept() { return kept_; }
  // False if there were more of them than max_kept.
  bool kept_all() const { return kept_all_; }
  // False if time, chunks or extents did not suffice.
  bool complete() const { return complete_; }

  // The extent of the chunk with that user's address, if the walk found it in use.
  std::optional<Extent> chunk_of(std::uint64_t user) const;

 private:
  struct Head {
    std::uint64_t previous_size;
    std::uint64_t size;
  };
  void walk(std::uint64_t begin, std::uint64_t end, std::uint64_t top, std::uint32_t name);
  // The next address from which several chunks lead to each other; end if there is none.
  std::uint64_t resynchronize(std::uint64_t address, std::uint64_t end) const;
  // Size of the chunk at that address; 0 if it is none.
  std::uint64_t chunk_bytes(std::uint64_t address, std::uint64_t end, Head& head) const;
  void add(std::uint64_t begin, std::uint64_t end, RssClass kind, std::uint32_t name);
  void take(std::uint64_t chunk, std::uint64_t bytes, bool in_use, std::uint32_t name);
  struct MappedChunk {
    std::uint64_t bytes = 0;  // size of its pages; 0: no chunk
    std::uint64_t user_bytes = 0;
  };
  // The chunk that begins with that page.
  MappedChunk mapped_chunk(std::uint64_t page, std::uint64_t end) const;
  struct CachedList {
    std::uint64_t user = 0;         // address of the first chunk
    std::uint64_t most = 0;         // maximum number of chunks
    std::uint64_t chunk_bytes = 0;  // size of each chunk; 0: unknown
    std::uint64_t link_to_user = 0;
  };
  void follow_list(CachedList list);
  void find_in_tcache(std::uint64_t user);
  void keep(std::uint64_t user, std::uint64_t bytes);
  bool out_of_room();

  const MemoryReader& memory_;
  Visitor visitor_;
  MallocOptions options_;
  ExtentLayer chunks_, cached_;
  std::vector<std::uint64_t> tcaches_;
  std::vector<MallocChunk> kept_;
  bool kept_all_ = true;
  std::uint64_t walked_ = 0, mapped_ = 0;
  bool complete_ = true;
};

}  // namespace memprofd
