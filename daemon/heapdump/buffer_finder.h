// SPDX-License-Identifier: Apache-2.0
// Finds buffers of the standard library (Buffer.t) among all blocks of a heap, by their contents,
// which no other block has by chance:
//
//     OCaml 4        { buffer; position; length; initial_buffer }
//     from 5.2 on    { inner = { buffer; length }; position; initial_buffer }
//
// where buffer has length bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/heap_walk.h"

namespace memprofd {

class BufferFinder {
 public:
  // The memory must outlive this.
  BufferFinder(const MemoryReader& memory, bool has_inner)
      : memory_(memory), has_inner_(has_inner) {}

  // Bytes in use; nullopt if the block is not a Buffer. A block that looks like one costs at least
  // one read, so after kMaxSearches of them no block is recognised any more.
  std::optional<std::uint64_t> used(const BlockPart& part);

  static constexpr std::uint64_t kMaxSearches = 1u << 20;

 private:
  bool is_string_of(std::uint64_t value, std::uint64_t length) const;
  bool is_inner_of(std::uint64_t value, std::uint64_t position) const;

  const MemoryReader& memory_;
  const bool has_inner_;
  std::uint64_t searches_ = 0;
};

}  // namespace memprofd
