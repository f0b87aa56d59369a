// SPDX-License-Identifier: Apache-2.0
// Structures that an OCaml runtime allocates by malloc, recognised by their form. This needs no
// symbols, and is the same in OCaml 4.11 to 4.14 and 5.0 to 5.4. The program may be hostile: every
// function reads a bounded number of words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// struct channel: a header, one of whose first words points to the end of a buffer of 64 KiB. The
// buffer is in the same chunk or, since OCaml 5.3, in one of its own.
struct ChannelChunks {
  std::uint64_t user = 0;
  std::uint64_t buffer = 0;  // address of the buffer's chunk, as users see it; 0: the same chunk

  friend bool operator==(const ChannelChunks&, const ChannelChunks&) = default;
};
std::optional<ChannelChunks> find_channel(const MemoryReader& memory, std::uint64_t user,
                                          std::uint64_t bytes);

// The hash table of frame descriptors. Each entry is near the slot for its descriptor's return
// address.
bool is_frame_table(const MemoryReader& memory, std::uint64_t user, std::uint64_t bytes);

// struct stack_info of OCaml 5, followed by its stack.
bool is_fiber_stack(const MemoryReader& memory, std::uint64_t user, std::uint64_t bytes);

// struct caml_ref_table and its like: base, end, threshold, ptr, limit, size, reserve.
inline constexpr std::size_t kRefTableWords = 7;
// The address of its entries; nullopt: not such a table, or no entries yet.
std::optional<std::uint64_t> ref_table_entries(
    std::span<const std::uint64_t, kRefTableWords> table);

// The header of a pool of OCaml 5 that is owned by one of these states, or by none and is in a
// list.
using PoolHead = std::array<std::uint64_t, 4>;
bool is_pool_head(const PoolHead& head, std::uint64_t pool, std::span<const std::uint64_t> states);

}  // namespace memprofd
