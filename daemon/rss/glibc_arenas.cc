// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/glibc_arenas.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMaxDataBytes = 16 << 20;
constexpr int kBins = 127;
constexpr std::uint64_t kBinBytes = 16;
constexpr int kMaxCandidates = 1024;

// Offsets from the first bin.
constexpr std::uint64_t kTopBefore = 16;
constexpr std::uint64_t kNext = 2048;
constexpr std::uint64_t kSystem = 2072;  // followed by its maximum
constexpr std::uint64_t kArenaEnd = 2088;
// Bytes before the bins, with fastbins and without.
constexpr std::uint64_t kBinsInArena[] = {112, 32, 24};
// struct heap_info since 2.35 and before.
constexpr std::uint64_t kHeapHeads[] = {48, 32};

struct ArenaTail {
  std::uint64_t next, next_free, threads, system_bytes, max_system_bytes;
};
struct HeapInfo {
  std::uint64_t arena, previous, bytes;
};

bool read_tail(const MemoryReader& memory, std::uint64_t bins, ArenaTail& tail) {
  if (bins >= kEndOfMemory || bins % kWordBytes != 0) return false;
  if (!memory.read_value(bins + kNext, tail).ok()) return false;
  return tail.system_bytes != 0 && tail.system_bytes <= tail.max_system_bytes &&
         tail.max_system_bytes < kEndOfMemory && tail.next < kEndOfMemory;
}

// The bins of all arenas, if they form a ring. before: size of the part of an arena before its
// bins.
std::vector<std::uint64_t> follow_ring(const MemoryReader& memory, std::uint64_t first,
                                       std::uint64_t before) {
  std::vector<std::uint64_t> ring;
  ArenaTail tail;
  for (std::uint64_t bins = first; ring.size() < kMaxArenas; bins = tail.next + before) {
    if (!ring.empty() && bins == first) return ring;
    if (!read_tail(memory, bins, tail)) return {};
    ring.push_back(bins);
  }
  return {};
}

// The ring of the arena with this bin, whose number is unknown.
std::vector<std::uint64_t> ring_of_bin(const MemoryReader& memory, std::uint64_t bin) {
  for (int number = 0; number < kBins; ++number) {
    const std::uint64_t bins = bin - static_cast<std::uint64_t>(number) * kBinBytes;
    for (const std::uint64_t before : kBinsInArena) {
      auto ring = follow_ring(memory, bins, before);
      if (!ring.empty()) return ring;
    }
  }
  return {};
}

// An empty bin is the head of a list that begins 16 bytes before it.
std::vector<std::uint64_t> find_ring(const MemoryReader& memory, const AddressSpan& data) {
  std::array<std::uint64_t, 512> words;
  const std::uint64_t end = std::min(data.end, data.begin + kMaxDataBytes);
  int candidates = 0;
  std::uint64_t before = 0;
  for (std::uint64_t page = data.begin; page + sizeof words <= end; page += sizeof words) {
    if (!memory.read_value(page, words).ok()) continue;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::uint64_t first = i == 0 ? before : words[i - 1];
      const std::uint64_t at = page + (i - 1) * kWordBytes;
      if (first != words[i] || first != at - kBinBytes) continue;
      if (++candidates > kMaxCandidates) return {};
      auto ring = ring_of_bin(memory, at);
      if (!ring.empty()) return ring;
    }
    before = words.back();
  }
  return {};
}

// The heaps of an arena other than the main one, the last one first; room counts the heaps of all
// arenas.
void list_heaps(const MemoryReader& memory, Arena& arena, std::size_t& room) {
  std::uint64_t heap = arena.top & ~(kArenaHeapBytes - 1);
  HeapInfo info{};
  std::uint64_t owner = 0;
  absl::flat_hash_set<std::uint64_t> seen;
  for (; heap != 0 && room > 0 && seen.insert(heap).second; heap = info.previous, --room) {
    if (heap % kArenaHeapBytes != 0 || !memory.read_value(heap, info).ok()) return;
    if (info.bytes > kArenaHeapBytes || (owner != 0 && info.arena != owner)) return;
    owner = info.arena;
    arena.heaps.push_back({.begin = heap, .first_chunk = heap, .end = heap + info.bytes});
  }
  // The first heap contains the arena itself, directly after its own head.
  const std::uint64_t head = owner % kArenaHeapBytes;
  if (std::ranges::find(kHeapHeads, head) == std::end(kHeapHeads)) return arena.heaps.clear();
  for (ArenaHeap& one : arena.heaps) {
    const bool has_arena = one.begin == owner - head;
    const std::uint64_t first =
        has_arena ? (arena.bins + kArenaEnd + 15) / 16 * 16 : one.begin + head;
    one.first_chunk = std::clamp(first, one.begin, one.end);
  }
}

}  // namespace

std::vector<Arena> find_arenas(const MemoryReader& memory, std::span<const AddressSpan> data) {
  std::vector<std::uint64_t> ring;
  for (const AddressSpan& span : data) {
    ring = find_ring(memory, span);
    if (!ring.empty()) break;
  }
  std::vector<Arena> arenas;
  std::size_t room = kMaxArenaHeaps;
  for (const std::uint64_t bins : ring) {
    Arena arena{.bins = bins, .is_main = arenas.empty()};
    ArenaTail tail;
    if (!read_tail(memory, bins, tail)) continue;
    arena.system_bytes = tail.system_bytes;
    if (!memory.read_value(bins - kTopBefore, arena.top).ok()) continue;
    if (!arena.is_main) list_heaps(memory, arena, room);
    arenas.push_back(std::move(arena));
  }
  return arenas;
}

}  // namespace memprofd
