// SPDX-License-Identifier: Apache-2.0
// OCaml 4: chunks of the heap, in a list by address. A chunk's head lies before it and differs
// between releases, sometimes within one; three words of it are enough:
//
//     head                                     chunk
//     | block | alloc | size | next | ..       | header | fields.. | header | ..
//
// The length of the head is the one with which the list adds up to the runtime's own number of
// chunks and words. Any other length reads words that are not sizes and addresses of whole pages.
#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <vector>

#include "daemon/snapshot/heap_lists.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kSize = 16;  // from the beginning of the head
constexpr std::uint64_t kNext = 24;
constexpr std::uint64_t kHeadBytes[] = {48, 56, 32};  // 4.12 and 4.13; 4.14; 4.11

constexpr std::uint32_t kPhaseSweep = 2;

// Returns nothing if the list does not add up.
std::vector<HeapRegion> follow(const MemoryReader& memory, std::uint64_t first,
                               std::uint64_t head_bytes, const RuntimeSums& sums) {
  std::vector<HeapRegion> chunks;
  std::uint64_t words_left = sums.heap_words;
  std::uint64_t end = 0;
  for (std::uint64_t chunk = first; chunk != 0;) {
    std::array<std::uint64_t, 2> size_and_next = {};
    static_assert(kNext == kSize + sizeof(std::uint64_t));
    if (chunks.size() == sums.chunks || chunk < end || chunk % kPageBytes != 0) return {};
    if (!memory.read_value(chunk - head_bytes + kSize, size_and_next).ok()) return {};
    const auto [bytes, next] = size_and_next;
    if (bytes == 0 || bytes % kPageBytes != 0 || bytes / kWordBytes > words_left) return {};
    words_left -= bytes / kWordBytes;
    chunks.push_back({.begin = chunk, .words = bytes / kWordBytes, .kind = RegionKind::kChunk});
    end = chunk + bytes;
    if (end < chunk) return {};
    chunk = next;
  }
  if (chunks.size() != sums.chunks || words_left != 0) chunks.clear();
  return chunks;
}

absl::Status read_sums(const MemoryReader& memory, const RuntimeAbi& abi, std::uint64_t state,
                       RuntimeSums& sums) {
  RETURN_IF_ERROR(memory.read_value(state + abi.stats + offsetof(StatisticsOfOcaml4, heap_words),
                                    sums.heap_words));
  RETURN_IF_ERROR(memory.read_value(state + abi.heap_chunks, sums.chunks));
  if (sums.chunks != 0 && sums.chunks <= kMaxHeapRegions) return absl::OkStatus();
  return bad_heap(fmt::format("the runtime counts {} chunks", sums.chunks));
}

absl::Status read_colours(const MemoryReader& memory, const ChunkHeap& heap, HeapColours& colours) {
  std::uint32_t phase = 0;
  RETURN_IF_ERROR(memory.read_value(heap.gc_phase, phase));
  if (phase != kPhaseSweep) return absl::OkStatus();
  return memory.read_value(heap.sweep_position, colours.unswept);
}

}  // namespace

absl::Status list_chunks(const MemoryReader& memory, const RuntimeAbi& abi, const ChunkHeap& heap,
                         std::uint64_t state, HeapMap& map) {
  std::uint64_t first = 0;
  RETURN_IF_ERROR(read_sums(memory, abi, state, map.sums));
  RETURN_IF_ERROR(read_colours(memory, heap, map.colours));
  RETURN_IF_ERROR(memory.read_value(heap.first_chunk, first));
  for (const std::uint64_t head_bytes : kHeadBytes) {
    const auto chunks = follow(memory, first, head_bytes, map.sums);
    map.regions.insert(map.regions.end(), chunks.begin(), chunks.end());
    if (!chunks.empty()) return absl::OkStatus();
  }
  return bad_heap(fmt::format("no list of {} chunks with {} words starts at {:#x}", map.sums.chunks,
                              map.sums.heap_words, first));
}

}  // namespace memprofd
