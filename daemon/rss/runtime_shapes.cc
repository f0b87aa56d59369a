// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/runtime_shapes.h"

#include <algorithm>
#include <bit>

#include "daemon/rss/page_map.h"
#include "daemon/runtime/pool_offsets.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/heap_layout.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPoolBytes = PoolHeap::kPoolWords * kWordBytes;

// malloc may give some bytes more than requested, and up to a page more for a chunk with its own
// mapping.
constexpr std::uint64_t kSlack = 32;
constexpr std::uint64_t kMinMapped = 64 << 10;
std::uint64_t slack_of(std::uint64_t bytes) {
  return bytes < kMinMapped ? kSlack : kPageBytes + kSlack;
}

constexpr std::uint64_t kChannelBuffer = 65'536;
constexpr std::uint64_t kChannelHeadMin = 64, kChannelHeadMax = 160;
// Size of a channel whose buffer has a chunk of its own, and the offset of its buffer pointer.
constexpr std::uint64_t kChannelApart = 128, kChannelApartBuffer = 112;

constexpr std::uint64_t kMinFrameTable = 1024;
constexpr std::size_t kFrameTableWords = 128;  // number of examined words
constexpr std::size_t kFrameTableEntries = 8;
constexpr std::uint64_t kMaxProbes = 64;

// A stack of OCaml 5 begins with four words: the end of its used part, an exception's handler, its
// own handler, which is at its other end, and the number of the cache to which it returns, or -1.
constexpr std::uint64_t kMinStack = 256;
constexpr std::uint64_t kStackEnd = 256;
constexpr std::uint32_t kMaxStackCache = 64;

}  // namespace

std::optional<ChannelChunks> find_channel(const MemoryReader& memory, std::uint64_t user,
                                          std::uint64_t bytes) {
  const bool has_buffer = bytes >= kChannelBuffer + kChannelHeadMin &&
                          bytes <= kChannelBuffer + kChannelHeadMax + slack_of(bytes);
  const bool is_apart = bytes >= kChannelApart && bytes < kChannelApart + kSlack;
  if (!has_buffer && !is_apart) return std::nullopt;
  std::array<std::uint64_t, 5> head{};  // descriptor, offset, end, curr, max
  if (!memory.read_value(user, head).ok()) return std::nullopt;
  const auto [descriptor, offset, end, curr, max] = head;
  const std::uint64_t buffer = end - kChannelBuffer;
  // A channel for writing has no max.
  if (end <= kChannelBuffer || curr < buffer || curr > end ||
      (max != 0 && (max < buffer || max > end))) {
    return std::nullopt;
  }
  if (has_buffer) {
    const bool fits = buffer >= user + kChannelHeadMin && buffer <= user + kChannelHeadMax;
    return fits ? std::optional(ChannelChunks{.user = user}) : std::nullopt;
  }
  std::uint64_t pointed = 0;
  const bool read = memory.read_value(user + kChannelApartBuffer, pointed).ok();
  return read && pointed == buffer ? std::optional(ChannelChunks{.user = user, .buffer = buffer})
                                   : std::nullopt;
}

bool is_frame_table(const MemoryReader& memory, std::uint64_t user, std::uint64_t bytes) {
  const std::uint64_t table = std::bit_floor(bytes);
  if (table < kMinFrameTable || bytes - table > slack_of(bytes)) return false;
  std::array<std::uint64_t, kFrameTableWords> words{};
  if (!memory.read_value(user, words).ok()) return false;
  const std::uint64_t mask = table / kWordBytes - 1;
  std::size_t entries = 0;
  for (std::size_t i = 0; i < words.size() && entries < kFrameTableEntries; ++i) {
    std::uint64_t return_address = 0;
    if (words[i] == 0) continue;
    if (words[i] % kWordBytes != 0 || !memory.read_value(words[i], return_address).ok() ||
        return_address == 0 || ((i - (return_address >> 3)) & mask) >= kMaxProbes) {
      return false;
    }
    ++entries;
  }
  return entries == kFrameTableEntries;
}

bool is_fiber_stack(const MemoryReader& memory, std::uint64_t user, std::uint64_t bytes) {
  std::array<std::uint64_t, 4> head{};
  if (bytes < kMinStack || !memory.read_value(user, head).ok()) return false;
  const std::uint64_t used_to = head[0], handler = head[2], end = user + bytes;
  const auto cache = static_cast<std::uint32_t>(head[3]);
  return handler < end && handler >= end - std::min(bytes, kStackEnd + slack_of(bytes)) &&
         used_to > user && used_to <= handler && (used_to | handler) % kWordBytes == 0 &&
         (cache < kMaxStackCache || cache == ~0u);
}

std::optional<std::uint64_t> ref_table_entries(
    std::span<const std::uint64_t, kRefTableWords> table) {
  const auto [base, end, threshold, ptr, limit, size, reserve] =
      std::array{table[0], table[1], table[2], table[3], table[4], table[5], table[6]};
  const bool has_room = base != 0 && size != 0 && size < kEndOfMemory && reserve < kEndOfMemory;
  if (!has_room || threshold <= base || end < threshold || (threshold - base) % size != 0) {
    return std::nullopt;
  }
  const std::uint64_t entry = (threshold - base) / size;
  const bool fits = entry % kWordBytes == 0 && entry <= 4 * kWordBytes &&
                    end - threshold == reserve * entry && ptr >= base && ptr <= end &&
                    (limit == threshold || limit == end);
  return fits ? std::optional(base) : std::nullopt;
}

// The head has the next pool, the next free slot, the domain and the size class.
bool is_pool_head(const PoolHead& head, std::uint64_t pool, std::span<const std::uint64_t> states) {
  const auto [next, slot, owner, size_class] = head;
  const bool leads_on = next % kPageBytes == 0 && next < kEndOfMemory;
  const bool has_slot = slot == 0 || (slot > pool && slot < pool + kPoolBytes);
  const bool has_owner = owner == 0 ? next != 0 : std::ranges::find(states, owner) != states.end();
  const auto number = static_cast<std::uint32_t>(size_class);
  return leads_on && has_slot && has_owner && number > 0 && number < PoolHeap::kClasses;
}

}  // namespace memprofd
