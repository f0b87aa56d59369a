// SPDX-License-Identifier: Apache-2.0
// Native memory that blocks of a copy's heap hold: chunks of glibc's malloc to which they point,
// and those to which these lead, each chunk once (rss/chunk_owners.h). Owners are custom and
// abstract blocks, and in OCaml 4 any block with a pointer out of the heap. Memory that Bigarrays
// and channels are known to hold (snapshot/outside_bytes.h) is not included.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/target.h"
#include "daemon/rss/chunk_owners.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/page_map.h"
#include "daemon/rss/part_finder.h"
#include "daemon/rss/resident_reader.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/heap_walk.h"

namespace memprofd {

class NativeMemory {
 public:
  // Facts about blocks, which the caller of the walk supplies.
  struct Blocks {
    std::function<const std::string&(std::uint64_t operations)> identifier;
    std::function<bool(std::uint64_t block)> is_ephemeron;  // by the address of its header
    std::function<bool(std::uint64_t value)> in_heap;
  };

  // Walks malloc's chunks of the copy, a stopped process that outlives this with its memory and the
  // map of its heap. file: the program's. kFailedPrecondition: its malloc is not glibc's.
  static absl::StatusOr<std::unique_ptr<NativeMemory>> search(int pid, const MemoryReader& memory,
                                                              const HeapMap& heap,
                                                              const Target& target,
                                                              const ElfFile& file, Blocks blocks);

  // The visitor of a heap walk; for most blocks it only checks their words.
  void operator()(const BlockPart& part) {
    if (part.state == BlockState::kUsed && may_hold(part)) search_block(part);
  }
  // Call this once, after the walk: reports each block that holds something, by the address of its
  // header.
  void report(const std::function<void(std::uint64_t block, const ChunkBytes& held)>& use);

 private:
  NativeMemory(const MemoryReader& memory, const HeapMap& heap, PageMap pages, OcamlRuntime runtime,
               Blocks blocks);
  struct Holder {
    std::uint64_t block = 0;
    std::uint64_t known_bytes = 0;  // already known from its shape
  };
  static constexpr std::uint64_t kChunkAlignment = 16;

  bool may_hold(const BlockPart& part) const {
    const unsigned tag = tag_of(part.header);
    if (tag == kCustomTag) return true;
    if (tag != kAbstractTag && (runtime_.abi.domains || !holds_values(part.header))) return false;
    return std::ranges::any_of(part.fields, [this](std::uint64_t word) {
      return word % kChunkAlignment == 0 && chunks_->may_own(word);
    });
  }
  void search_block(const BlockPart& part);
  bool own_words(const BlockPart& part, std::uint32_t owner, Holder& holder);
  std::vector<ChunkBytes> sums() const;

  const Blocks blocks_;
  const PageMap pages_;
  const OcamlRuntime runtime_;
  const ResidentReader reader_;
  PartFinder parts_;
  std::optional<ChunkOwners> chunks_;
  ClassifiedMappings mappings_;
  std::vector<Holder> holders_;  // by number of the owner
};

}  // namespace memprofd
