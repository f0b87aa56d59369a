// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/chunk_owners.h"

#include <algorithm>
#include <array>

#include "daemon/rss/page_map.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {}  // namespace

ChunkOwners::ChunkOwners(const MemoryReader& memory, std::vector<MallocChunk> chunks)
    : memory_(memory), chunks_(std::move(chunks)) {
  std::ranges::sort(chunks_, {}, &MallocChunk::user);
  owners_.assign(chunks_.size(), kNobody);
  for (const MallocChunk& chunk : chunks_) has_chunks_.set(chunk.user / kSpan % kSpans);
}

void ChunkOwners::exclude(const ExtentLayer& layer) {
  auto at = layer.extents().begin();
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const MallocChunk& chunk = chunks_[i];
    while (at != layer.extents().end() && at->end <= chunk.user) ++at;
    if (at == layer.extents().end()) return;
    // The last word also belongs to the next chunk.
    const std::uint64_t own_end = chunk.user + chunk.bytes - kWordBytes;
    if (at->begin < own_end && owners_[i] == kNobody) owners_[i] = kExcluded;
  }
}

bool ChunkOwners::own(std::uint64_t word, std::uint32_t owner, std::uint32_t steps) {
  if (chunks_.empty() || word < chunks_.front().user || word > chunks_.back().user) return false;
  const auto found = std::ranges::lower_bound(chunks_, word, {}, &MallocChunk::user);
  const auto chunk = static_cast<std::size_t>(found - chunks_.begin());
  if (found->user != word || owners_[chunk] != kNobody) return false;
  owners_[chunk] = owner;
  if (steps != 0) waiting_.push_back({chunk, steps});
  return true;
}

void ChunkOwners::follow() {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const auto [chunk, steps] = waiting_[i];
    inspect_mapping(chunks_[chunk], owners_[chunk], steps == kAllTheWay ? steps : steps - 1);
  }
  waiting_.clear();
}

// Reads page by page, because pages that were never touched hold no pointers.
void ChunkOwners::inspect_mapping(const MallocChunk& chunk, std::uint32_t owner,
                                  std::uint32_t steps) {
  std::array<std::uint64_t, kPageBytes / kWordBytes> words;
  const std::uint64_t end = (chunk.user + chunk.bytes) / kWordBytes * kWordBytes;
  for (std::uint64_t at = chunk.user; at < end;) {
    const std::uint64_t next = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    const auto piece = std::span(words).first((next - at) / kWordBytes);
    if (memory_.read(at, std::as_writable_bytes(piece)).ok()) {
      for (const std::uint64_t word : piece) own(word, owner, steps);
    }
    at = next;
  }
}

}  // namespace memprofd
