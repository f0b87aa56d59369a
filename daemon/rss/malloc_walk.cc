// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/malloc_walk.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

namespace memprofd {
namespace {

constexpr std::uint64_t kPrevInUse = 1, kIsMapped = 2, kFlags = 7;
constexpr std::uint64_t kSmallest = 32;
constexpr std::uint64_t kAlign = 16;
constexpr std::uint64_t kHead = 16;  // from the chunk to the user's bytes
constexpr std::uint64_t kLastWord = 8;
constexpr std::uint64_t kPage = 4096;
constexpr int kPlausibleRun = 8;
constexpr std::uint64_t kResyncBytes = 1 << 20;
constexpr std::uint64_t kChecksEvery = 4096;

constexpr std::uint64_t kMaxCached = 65'535;

// struct tcache_perthread_struct of glibc 2.30 to 2.41, and from 2.42 on: lists of larger chunks
// follow, and the room of each list is counted instead of its chunks.
template <std::size_t Lists>
struct Tcache {
  std::array<std::uint16_t, Lists> counts;
  std::array<std::uint64_t, Lists> entries;
};
constexpr std::size_t kSmallLists = 64;  // one for each size
constexpr std::size_t kLists = 76;
constexpr std::uint64_t kTcacheBytes = 0x290;  // with its head
constexpr std::uint64_t kRoomTcacheBytes = 0x300;
static_assert(sizeof(Tcache<kSmallLists>) == kTcacheBytes - kHead);
static_assert(sizeof(Tcache<kLists>) == kRoomTcacheBytes - kHead + kLastWord);

struct CachedChunks {
  std::array<std::uint64_t, kLists> first{};
  std::array<std::uint16_t, kLists> count{};
};

// nullopt: it is not a tcache but another chunk of that size. Where room is counted, an empty list
// has the full room, which is the same for all lists.
template <std::size_t Lists>
std::optional<CachedChunks> read_tcache(const MemoryReader& memory, std::uint64_t user) {
  constexpr bool kCountsRoom = Lists == kLists;
  Tcache<Lists> tcache{};
  CachedChunks cached;
  if (!memory.read_value(user, tcache).ok()) return std::nullopt;
  const int empty = kCountsRoom ? *std::ranges::max_element(tcache.counts) : 0;
  for (std::size_t i = 0; i < Lists; ++i) {
    if ((tcache.counts[i] == empty) != (tcache.entries[i] == 0)) return std::nullopt;
    cached.first[i] = tcache.entries[i];
    cached.count[i] = static_cast<std::uint16_t>(std::abs(tcache.counts[i] - empty));
  }
  return cached;
}

// Offset from the first bin, if an arena has fastbins.
constexpr std::uint64_t kFastbinsBefore = 96;
constexpr std::size_t kFastbins = 10;
constexpr std::uint64_t kMaxFastChunk = 176;

}  // namespace

void MallocWalk::add(std::uint64_t begin, std::uint64_t end, RssClass kind, std::uint32_t name) {
  if (!chunks_.add({.begin = begin, .end = end, .kind = kind, .name = name})) complete_ = false;
}

bool MallocWalk::out_of_room() {
  if (++walked_ >= options_.max_chunks) complete_ = false;
  if (walked_ % kChecksEvery == 0 &&
      (options_.stop.stop_requested() || std::chrono::steady_clock::now() > options_.deadline)) {
    complete_ = false;
  }
  return !complete_;
}

std::uint64_t MallocWalk::chunk_bytes(std::uint64_t address, std::uint64_t end, Head& head) const {
  if (address + kSmallest > end || !memory_.read_value(address, head).ok()) return 0;
  const std::uint64_t bytes = head.size & ~kFlags;
  if (bytes < kSmallest || bytes % kAlign != 0 || bytes > end - address) return 0;
  return (head.size & kIsMapped) == 0 ? bytes : 0;
}

std::uint64_t MallocWalk::resynchronize(std::uint64_t address, std::uint64_t end) const {
  const std::uint64_t last = std::min(end, address + kResyncBytes);
  for (; address < last; address += kAlign) {
    std::uint64_t at = address;
    Head head{};
    int run = 0;
    for (; run < kPlausibleRun && at < end; ++run) {
      const std::uint64_t bytes = chunk_bytes(at, end, head);
      if (bytes == 0) break;
      at += bytes;
    }
    if (run == kPlausibleRun || (run > 1 && at == end)) return address;
  }
  return end;
}

// A bit of the next chunk shows whether a chunk is free, so each chunk waits until that one has
// been read. No heap lies after the end of memory, where a rounded address may be 0.
void MallocWalk::walk(std::uint64_t begin, std::uint64_t end, std::uint64_t top,
                      std::uint32_t name) {
  if (end > kEndOfMemory) return;
  std::uint64_t waiting = 0, address = (begin + kAlign - 1) / kAlign * kAlign;
  while (address < end && !out_of_room()) {
    Head head{.previous_size = 0, .size = kPrevInUse};
    const std::uint64_t bytes = chunk_bytes(address, end, head);
    if (waiting != 0) take(waiting, address - waiting, (head.size & kPrevInUse) != 0, name);
    waiting = 0;
    if (address == top && bytes != 0) {
      add(address, address + bytes, RssClass::kMallocFree, name);
      return;
    }
    if (bytes != 0) {
      waiting = address;
      address += bytes;
      continue;
    }
    // The last chunk of a heap is followed by some words that terminate it.
    const bool last = end - address <= 2 * kSmallest;
    const std::uint64_t next = last ? end : resynchronize(address, end);
    add(address, next, last ? RssClass::kMallocUsed : RssClass::kMallocUnwalked, name);
    address = next;
  }
  if (waiting != 0) add(waiting, address, RssClass::kMallocUnwalked, name);
  if (address < end) add(address, end, RssClass::kMallocUnwalked, name);
}

void MallocWalk::take(std::uint64_t chunk, std::uint64_t bytes, bool in_use, std::uint32_t name) {
  if (!in_use) return add(chunk, chunk + bytes, RssClass::kMallocFree, name);
  if ((bytes == kTcacheBytes || bytes == kRoomTcacheBytes) && tcaches_.size() < kMaxCached) {
    tcaches_.push_back(chunk + kHead);
  }
  const auto known = visitor_(chunk + kHead, bytes - kHead);
  // The first word of the next chunk also belongs to this one.
  if (!known) keep(chunk + kHead, bytes - kHead + sizeof(std::uint64_t));
  add(chunk, chunk + bytes, known.value_or(RssClass::kMallocUsed), name);
}

void MallocWalk::keep(std::uint64_t user, std::uint64_t bytes) {
  if (kept_.size() < options_.max_kept) {
    kept_.push_back({user, bytes});
  } else {
    kept_all_ = false;
  }
}

void MallocWalk::walk_arena(const Arena& arena, std::uint32_t number,
                            const std::vector<AddressSpan>& break_heap) {
  if (arena.is_main) {
    for (const AddressSpan& heap : break_heap) walk(heap.begin, heap.end, arena.top, number + 1);
  }
  for (const ArenaHeap& heap : arena.heaps) {
    add(heap.begin, std::min(heap.first_chunk, heap.end), RssClass::kMallocUsed, number + 1);
    walk(heap.first_chunk, heap.end, arena.top, number + 1);
  }
}

// Less than a page of alignment precedes the chunk. The size in its head is that of its pages; from
// glibc 2.43 on that excludes the head, and the user does not own the last word.
MallocWalk::MappedChunk MallocWalk::mapped_chunk(std::uint64_t page, std::uint64_t end) const {
  Head head{};
  if (!memory_.read_value(page, head).ok()) return {};
  const std::uint64_t size = head.size & ~kFlags;
  const bool headless = (size + kHead) % kPage == 0;
  const std::uint64_t bytes = headless ? size + kHead : size;
  const bool is_one = (head.size & kFlags) == kIsMapped && head.previous_size < kPage &&
                      bytes != 0 && bytes % kPage == 0 && bytes <= end - page;
  if (!is_one) return {};
  return {.bytes = bytes, .user_bytes = headless ? size - kLastWord : size - kHead};
}

void MallocWalk::walk_mapped(const AddressSpan& span, std::span<const AddressSpan> runs,
                             const ExtentLayer& covered) {
  if (span.end > kEndOfMemory) return;
  std::uint64_t page = span.begin;
  for (const AddressSpan& run : runs) {
    page = std::max(page, run.begin);
    while (page < run.end && !out_of_room()) {
      if (const Extent* known = covered.find(page)) {
        page = std::max(page + kPage, known->end / kPage * kPage);
        continue;
      }
      const auto [bytes, user_bytes] = mapped_chunk(page, span.end);
      if (bytes != 0) {
        const auto known = visitor_(page + kHead, user_bytes);
        if (!known) keep(page + kHead, user_bytes);
        add(page, page + bytes, known.value_or(RssClass::kMallocMmapped), 0);
        ++mapped_;
      }
      page += std::max(bytes, kPage);
    }
  }
}

std::optional<Extent> MallocWalk::chunk_of(std::uint64_t user) const {
  if (user < kHead || user % kAlign != 0) return std::nullopt;
  const std::uint64_t chunk = user - kHead;
  const Extent* extent = chunks_.find(chunk);
  Head head{};
  if (extent == nullptr || !memory_.read_value(chunk, head).ok()) return std::nullopt;
  const std::uint64_t bytes = head.size & ~kFlags;
  if (extent->kind == RssClass::kMallocFree || extent->kind == RssClass::kMallocUnwalked ||
      bytes < kSmallest || bytes > extent->end - chunk) {
    return std::nullopt;
  }
  return Extent{.begin = chunk, .end = chunk + bytes, .kind = extent->kind, .name = extent->name};
}

// Since glibc 2.32 links are XORed with their own address; a decoded plain link has no chunk.
void MallocWalk::follow_list(CachedList list) {
  for (std::uint64_t i = 0, user = list.user; i < list.most && user != 0; ++i) {
    const auto chunk = chunk_of(user);
    std::uint64_t link = 0;
    if (!chunk || !memory_.read_value(user, link).ok()) return;
    if (list.chunk_bytes != 0 && chunk->end - chunk->begin != list.chunk_bytes) return;
    cached_.add({.begin = chunk->begin,
                 .end = chunk->end,
                 .kind = RssClass::kMallocCache,
                 .name = chunk->name});
    const std::uint64_t unmixed = link ^ (user >> 12);
    user = unmixed == 0 || chunk_of(unmixed + list.link_to_user) ? unmixed : link;
    if (user != 0) user += list.link_to_user;
  }
}

// Lists are ordered by size. A chunk with the size of a tcache that breaks this rule is not one.
void MallocWalk::find_in_tcache(std::uint64_t user) {
  std::uint64_t size = 0;
  if (!memory_.read_value(user - sizeof size, size).ok()) return;
  const bool counts_room = (size & ~kFlags) == kRoomTcacheBytes;
  const auto cached =
      counts_room ? read_tcache<kLists>(memory_, user) : read_tcache<kSmallLists>(memory_, user);
  if (!cached) return;
  for (std::size_t i = 0; i < kLists; ++i) {
    follow_list({.user = cached->first[i],
                 .most = cached->count[i],
                 .chunk_bytes = i < kSmallLists ? kSmallest + i * kAlign : 0});
  }
}

void MallocWalk::find_cached(const std::vector<Arena>& arenas) {
  for (const std::uint64_t user : tcaches_) find_in_tcache(user);
  std::array<std::uint64_t, kFastbins> fastbins{};
  for (const Arena& arena : arenas) {
    if (!memory_.read_value(arena.bins - kFastbinsBefore, fastbins).ok()) continue;
    for (const std::uint64_t chunk : fastbins) {
      const auto head = chunk == 0 ? std::nullopt : chunk_of(chunk + kHead);
      if (head && head->end - head->begin <= kMaxFastChunk) {
        follow_list({.user = chunk + kHead, .most = kMaxCached, .link_to_user = kHead});
      }
    }
  }
  cached_.seal();
}

}  // namespace memprofd
