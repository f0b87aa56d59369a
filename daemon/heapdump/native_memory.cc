// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/native_memory.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/rss/custom_owners.h"
#include "daemon/rss/ocaml_parts.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/outside_bytes.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Maximum time for which the copy is kept for this walk.
constexpr std::chrono::seconds kTime{10};

}  // namespace

NativeMemory::NativeMemory(const MemoryReader& memory, const HeapMap& heap, PageMap pages,
                           OcamlRuntime runtime, Blocks blocks)
    : blocks_(std::move(blocks)),
      pages_(std::move(pages)),
      runtime_(std::move(runtime)),
      reader_(memory, pages_, ResidentReader::Clock::now() + kTime),
      parts_(reader_, pages_, &runtime_, kMaxOwnedChunks, {}, &heap) {}

absl::StatusOr<std::unique_ptr<NativeMemory>> NativeMemory::search(
    int pid, const MemoryReader& memory, const HeapMap& heap, const Target& target,
    const ElfFile& file, Blocks blocks) {
  ASSIGN_OR_RETURN(PageMap pages, PageMap::open(pid));
  ASSIGN_OR_RETURN(const std::vector<Mapping> maps, ProcFs().maps(pid));
  RETURN_IF_ERROR(check_number(maps, target.pid));
  ASSIGN_OR_RETURN(OcamlRuntime runtime, find_ocaml_runtime(file, target.load_bias));
  std::unique_ptr<NativeMemory> found(
      new NativeMemory(memory, heap, std::move(pages), std::move(runtime), std::move(blocks)));
  PartNames names;
  found->mappings_ = classify_mappings(maps, target.exe, names);
  found->parts_.find(found->mappings_);
  if (!found->mappings_.other_allocator.empty() || found->parts_.arenas().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", target.pid, " does not use glibc's malloc"));
  }
  found->chunks_.emplace(found->reader_, std::move(found->parts_.walk().kept()));
  found->chunks_->exclude(found->parts_.heaps());
  found->chunks_->exclude(found->parts_.walk().cached());
  return found;
}

// A block that comes in several parts has one number.
void NativeMemory::search_block(const BlockPart& part) {
  const bool is_holder = !holders_.empty() && holders_.back().block == part.address;
  const std::size_t owner = holders_.size() - (is_holder ? 1 : 0);
  Holder holder{.block = part.address};
  const bool holds = own_words(part, static_cast<std::uint32_t>(owner), holder);
  if (holds && !is_holder) holders_.push_back(holder);
}

// Returns true if the owner holds any chunk.
bool NativeMemory::own_words(const BlockPart& part, std::uint32_t owner, Holder& holder) {
  const unsigned tag = tag_of(part.header);
  if (tag == kCustomTag && part.first == 0 && !part.fields.empty()) {
    const std::string& identifier = blocks_.identifier(part.fields[0]);
    holder.known_bytes = outside_bytes(identifier, part.fields);
    return own_words_of_custom(identifier, part.fields, owner, *chunks_);
  }
  if (tag == kAbstractTag && blocks_.is_ephemeron(part.address)) return false;
  bool holds = false;
  for (const std::uint64_t word : part.fields) {
    if (word % kChunkAlignment != 0 || blocks_.in_heap(word)) continue;
    holds |= chunks_->own(word, owner);
  }
  return holds;
}

std::vector<ChunkBytes> NativeMemory::sums() const {
  std::vector<ChunkBytes> sums(holders_.size());
  ExtentLayer owned;
  for (std::size_t i = 0; i < chunks_->chunks().size(); ++i) {
    const MallocChunk& chunk = chunks_->chunks()[i];
    const std::uint32_t owner = chunks_->owners()[i];
    if (owner >= sums.size()) continue;
    sums[owner].bytes += chunk.bytes;
    owned.add({.begin = chunk.user, .end = chunk.user + chunk.bytes, .name = owner + 1});
  }
  owned.seal();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i].bytes -= std::min(sums[i].bytes, holders_[i].known_bytes);
  }
  const ExtentLayer* const layers[] = {&owned};
  const auto count = [&](const PageRun& run) {
    if (run.swapped) return;
    cut_by_layers(layers, run.begin, run.end, [&](const Extent& piece) {
      if (piece.name != 0) sums[piece.name - 1].resident += piece.end - piece.begin;
    });
  };
  for (const Extent& mapping : mappings_.layer.extents()) {
    if (!pages_.scan(mapping.begin, mapping.end, count).ok()) break;
  }
  return sums;
}

void NativeMemory::report(const std::function<void(std::uint64_t, const ChunkBytes&)>& use) {
  chunks_->exclude(parts_.tables());
  chunks_->follow();
  const std::vector<ChunkBytes> held = sums();
  for (std::size_t i = 0; i < holders_.size(); ++i) use(holders_[i].block, held[i]);
}

}  // namespace memprofd
