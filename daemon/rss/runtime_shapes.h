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

// struct channel: a head, one of whose first words points to the end of a buffer of 64 KiB. That
// lies in the same chunk, or, since OCaml 5.3, in one of its own.
struct ChannelChunks {
  std::uint64_t user = 0;
  std::uint64_t buffer = 0;  // user's address of its chunk; 0: the same

  friend bool operator==(const ChannelChunks&, const ChannelChunks&) = default;
};
std::optional<ChannelChunks> find_channel(const MemoryReader& memory, std::uint64_t user,
                                          std::uint64_t bytes);

// The hash table of frame descriptors. Each entry lies near the place that the return address of
// its descriptor has.
bool is_frame_table(const MemoryReader& memory, std::uint64_t user, std::uint64_t bytes);

// struct stack_info of OCaml 5, with its stack behind it.
bool is_fiber_stack(const MemoryReader& memory, std::uint64_t user, std::uint64_t bytes);

// struct caml_ref_table and its like: base, end, threshold, ptr, limit, size, reserve.
inline constexpr std::size_t kRefTableWords = 7;
// The address of its entries; nothing: it is no such table, or has none yet.
std::optional<std::uint64_t> ref_table_entries(
    std::span<const std::uint64_t, kRefTableWords> table);

// The head of a pool of OCaml 5 whose owner is one of these states, or none and in a list.
using PoolHead = std::array<std::uint64_t, 4>;
bool is_pool_head(const PoolHead& head, std::uint64_t pool, std::span<const std::uint64_t> states);

}  // namespace memprofd
