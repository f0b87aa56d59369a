// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/custom_owners.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/snapshot/heap_walk.h"
#include "daemon/snapshot/outside_bytes.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Fields of a Bigarray: its elements, and the proxy through which it shares them.
constexpr std::size_t kData = 1, kProxy = 4;

}  // namespace

absl::Status SparseMemory::read(std::uint64_t address, std::span<std::byte> out) const {
  if (stop_.stop_requested() || Clock::now() >= until_) {
    return absl::DeadlineExceededError("no time is left");
  }
  std::memset(out.data(), 0, out.size());
  absl::Status status;
  const std::uint64_t end = address + out.size();
  const std::uint64_t first = address / kPageBytes * kPageBytes;
  const std::uint64_t last = (end + kPageBytes - 1) / kPageBytes * kPageBytes;
  RETURN_IF_ERROR(pages_.scan(first, last, [&](const PageRun& run) {
    const std::uint64_t from = std::max(run.begin, address), to = std::min(run.end, end);
    if (from >= to || !status.ok()) return;
    if (run.swapped) {
      swapped_ += to - from;
    } else {
      status = memory_.read(from, out.subspan(from - address, to - from));
    }
  }));
  return status;
}

std::string custom_identifier(const MemoryReader& memory, std::uint64_t operations) {
  CustomIdentifier identifier = read_custom_identifier(memory, operations);
  return identifier.is_printable ? std::move(identifier.text) : "";
}

// Elements are not pointers, and are not searched.
bool own_words_of_custom(std::string_view identifier, std::span<const std::uint64_t> fields,
                         std::uint32_t owner, ChunkOwners& chunks) {
  bool holds = false;
  if (identifier == kBigarrayIdentifier) {
    if (fields.size() > kData) holds |= chunks.own(fields[kData], owner, 0);
    if (fields.size() > kProxy) holds |= chunks.own(fields[kProxy], owner, 1);
    return holds;
  }
  for (const std::uint64_t word : fields.subspan(1)) holds |= chunks.own(word, owner);
  return holds;
}

std::uint32_t CustomOwners::number_of(std::uint64_t operations) {
  const auto known = by_operations_.find(operations);
  if (known != by_operations_.end()) return known->second;
  const bool full = by_operations_.size() >= kMaxIdentifiers;
  const std::string identifier = full ? "" : identifiers_(operations);
  const auto [at, is_new] =
      by_identifier_.try_emplace(identifier, static_cast<std::uint32_t>(owners_.size()));
  if (is_new) owners_.push_back({.identifier = identifier});
  if (!full) by_operations_[operations] = at->second;
  return at->second;
}

void CustomOwners::take_block(std::span<const std::uint64_t> fields, ChunkOwners& chunks) {
  const std::uint32_t owner = number_of(fields[0]);
  if (own_words_of_custom(owners_[owner].identifier, fields, owner, chunks)) {
    ++owners_[owner].blocks;
  }
}

void CustomOwners::lose(HeapMap& map, const HeapRegion* last, std::uint64_t reached) {
  const auto first = map.regions.begin();
  const auto done = last == nullptr ? first : first + (last - map.regions.data());
  lost_ += done->end() - std::max(done->begin, std::min(reached, done->end()));
  map.regions.erase(first, done + 1);
}

// The program is running. If its heap has changed too much, the walk continues with the next part.
void CustomOwners::find(const MemoryReader& memory, HeapMap map, ChunkOwners& chunks) {
  for (int losses = 0; !map.regions.empty() && losses < kMaxLosses; ++losses) {
    const HeapRegion* last = nullptr;
    std::uint64_t reached = 0;
    const auto visit = [&](const HeapRegion& region, const BlockPart& part) {
      last = &region;
      reached = part.address + part.words * kWordBytes;
      const bool is_block = part.state == BlockState::kUsed || part.state == BlockState::kDead;
      if (is_block && tag_of(part.header) == kCustomTag && part.fields.size() > 1) {
        take_block(part.fields, chunks);
      }
    };
    if (walk_heap(memory, map, visit).ok()) return;
    lose(map, last, reached);
  }
  for (const HeapRegion& region : map.regions) lost_ += region.words * kWordBytes;
}

void CustomOwners::sum_up(const ChunkOwners& chunks, ExtentLayer& layer) {
  for (std::size_t i = 0; i < chunks.chunks().size(); ++i) {
    const MallocChunk& chunk = chunks.chunks()[i];
    const std::uint32_t owner = chunks.owners()[i];
    if (owner == ChunkOwners::kExcluded) continue;
    const bool is_owned = owner != ChunkOwners::kNobody;
    NativeOwner& of = is_owned ? owners_[owner] : no_owner_;
    ++of.chunks;
    of.bytes += chunk.bytes;
    const auto number = is_owned ? owner : static_cast<std::uint32_t>(owners_.size());
    layer.add({.begin = chunk.user, .end = chunk.user + chunk.bytes, .name = number + 1});
  }
  layer.seal();
}

std::vector<NativeOwner> CustomOwners::largest() const {
  std::vector<NativeOwner> owners = owners_;
  std::erase_if(owners, [](const NativeOwner& owner) { return owner.chunks == 0; });
  std::ranges::stable_sort(owners, std::ranges::greater{}, &NativeOwner::bytes);
  return owners;
}

}  // namespace memprofd
