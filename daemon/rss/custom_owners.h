// SPDX-License-Identifier: Apache-2.0
// Finds how much native memory custom blocks hold, by their identifier: streams of a library,
// Bigarrays, channels, mutexes. Needs neither samples nor the program's cooperation; the program
// may be running. Dead blocks count too, because their memory is not freed until they are swept.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/rss/chunk_owners.h"
#include "daemon/rss/native_owner.h"
#include "daemon/rss/page_map.h"
#include "daemon/snapshot/heap_map.h"

namespace memprofd {

// A program's memory that reads as zeroes where it is not resident. Maps nothing and swaps nothing
// in.
class SparseMemory : public MemoryReader {
 public:
  using Clock = std::chrono::steady_clock;

  // Both must outlive this. Reads nothing after the time limit or once stop is requested.
  SparseMemory(const MemoryReader& memory, const PageMap& pages, Clock::time_point until,
               std::stop_token stop)
      : memory_(memory), pages_(pages), until_(until), stop_(std::move(stop)) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
  std::uint64_t swapped_bytes() const { return swapped_; }

 private:
  const MemoryReader& memory_;
  const PageMap& pages_;
  const Clock::time_point until_;
  const std::stop_token stop_;
  mutable std::uint64_t swapped_ = 0;
};

class CustomOwners {
 public:
  // Returns the identifier of a block's operations, given their address.
  using Identifiers = std::function<std::string(std::uint64_t)>;
  static constexpr std::size_t kMaxIdentifiers = 4096;
  // Number of times that a heap walk may end early.
  static constexpr int kMaxLosses = 256;

  explicit CustomOwners(Identifiers identifiers) : identifiers_(std::move(identifiers)) {}

  // Finds custom blocks and assigns their chunks to them. lost_bytes() returns the part of the heap
  // that could not be walked.
  void find(const MemoryReader& memory, HeapMap map, ChunkOwners& chunks);
  // Sums the chunks' bytes; call it after chunks were followed. layer: receives them under the name
  // owner number + 1.
  void sum_up(const ChunkOwners& chunks, ExtentLayer& layer);

  // Indexed by number.
  const std::vector<NativeOwner>& owners() const { return owners_; }
  // Owners that hold something, the largest first.
  std::vector<NativeOwner> largest() const;
  std::uint64_t lost_bytes() const { return lost_; }
  // Chunks in use that neither a custom block nor the runtime holds.
  const NativeOwner& no_owner() const { return no_owner_; }
  // number: as in the layer.
  void add_resident(std::uint32_t number, std::uint64_t bytes) {
    (number < owners_.size() ? owners_[number] : no_owner_).resident += bytes;
  }

 private:
  std::uint32_t number_of(std::uint64_t operations);
  // Marks the regions up to that one as not walked from the address that the walk reached, and
  // skips them.
  void lose(HeapMap& map, const HeapRegion* last, std::uint64_t reached);
  void take_block(std::span<const std::uint64_t> fields, ChunkOwners& chunks);

  Identifiers identifiers_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> by_operations_;
  absl::flat_hash_map<std::string, std::uint32_t> by_identifier_;
  std::vector<NativeOwner> owners_;
  std::uint64_t lost_ = 0;
  NativeOwner no_owner_;
};

// The identifier in the operations of custom blocks; empty if it cannot be read.
std::string custom_identifier(const MemoryReader& memory, std::uint64_t operations);

// Assigns the words of a custom block to chunks, after its operations pointer. Returns false if it
// holds no chunk.
bool own_words_of_custom(std::string_view identifier, std::span<const std::uint64_t> fields,
                         std::uint32_t owner, ChunkOwners& chunks);

}  // namespace memprofd
