// SPDX-License-Identifier: Apache-2.0
// Visits every block of a heap in address order. Whatever the memory contains, the walk ends and
// reads each word at most once, or fails with kDataLoss at the first block that does not fit into
// its region.
//
// A block larger than the window is reported in parts. A block with a tag above the limit `whole`
// is reported only with the fields in the window, at least 21 if it has them, as a Bigarray needs
// (bytes of a long string are not read unless requested).
//
//     window        |h1 f f|h2 f f f f f f f f f f|
//     parts          h1: first 0, fields 2
//                          h2: first 0, fields 10
//     next window   |f f f f f|h3 f f f|
//     parts          h2: first 10, fields 5
//                              h3: first 0, fields 3
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/heap_window.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

struct BlockPart {
  std::uint64_t address = 0;  // address of the block's header
  std::uint64_t header = 0;
  std::uint64_t words = 0;  // including the header; for a free slot, its size
  BlockState state = BlockState::kUsed;
  std::uint64_t first = 0;  // number of fields[0]; above 0: continues the previous block
  std::span<const std::uint64_t> fields;  // valid during the visit
};

// Blocks with tags up to this one are reported completely: those that contain values, including
// ephemerons.
inline constexpr unsigned kWhole = kAbstractTag;
// The limit that also includes strings and floats.
inline constexpr unsigned kWholeContents = kFloatArrayTag;

// Visitor: called as visit(const HeapRegion&, const BlockPart&).
template <typename Visitor>
class HeapWalk {
 public:
  // All arguments must outlive the walk.
  HeapWalk(const MemoryReader& memory, const HeapMap& map, Visitor& visit, unsigned whole)
      : map_(map), visit_(visit), whole_(whole), window_(memory) {}

  absl::Status run() {
    for (std::size_t i = 0; i < map_.regions.size(); ++i) {
      const HeapRegion& region = map_.regions[i];
      if (region.begin >= run_end_) run_end_ = end_of_run(i);
      RETURN_IF_ERROR(region.kind == RegionKind::kPool ? walk_slots(region) : walk_blocks(region));
    }
    return absl::OkStatus();
  }

 private:
  // Regions with a gap of less than a page are read together, because the gap is mapped.
  static constexpr std::uint64_t kMappedGapBytes = 4096;

  std::uint64_t end_of_run(std::size_t i) const {
    std::uint64_t end = map_.regions[i].end();
    while (++i < map_.regions.size() && map_.regions[i].begin - end < kMappedGapBytes) {
      end = map_.regions[i].end();
    }
    return end;
  }

  absl::Status walk_slots(const HeapRegion& region) {
    ASSIGN_OR_RETURN(const auto words, window_.at(region.begin, region.words, run_end_));
    const std::uint32_t slot_words = region.slot_words;
    std::uint64_t run = 0;  // slots from here on that are free whatever they hold
    for (std::uint64_t i = 0; i < region.words; i += slot_words) {
      const std::uint64_t address = region.begin + i * kWordBytes;
      if (run > 0) {
        --run;
        visit_(region, BlockPart{address, 0, slot_words, BlockState::kFree, 0, {}});
        continue;
      }
      const std::uint64_t header = words[i];
      const BlockState state = map_.colours.state_of(region.kind, address, header);
      const bool is_free = state == BlockState::kFree;
      if (is_free && map_.colours.free_runs) {
        run = fields_of(header);
        if (run >= (region.words - i) / slot_words) return overrun(region, address, header);
      }
      const std::uint64_t size = is_free ? slot_words : words_with_header(header);
      if (size > slot_words) return overrun(region, address, header);
      visit_(region, BlockPart{address, header, size, state, 0,
                               is_free ? std::span<const std::uint64_t>()
                                       : words.subspan(i + 1, size - 1)});
    }
    return absl::OkStatus();
  }

  absl::Status walk_blocks(const HeapRegion& region) {
    std::uint64_t at = region.begin;
    std::size_t least = 1;
    while (at < region.end()) {
      ASSIGN_OR_RETURN(auto words, window_.at(at, least, run_end_));
      const std::uint64_t left = (region.end() - at) / kWordBytes;
      words = words.first(std::min<std::uint64_t>(words.size(), left));
      std::uint64_t done = 0;
      while (done < words.size() && words_with_header(words[done]) <= words.size() - done) {
        const std::uint64_t size = words_with_header(words[done]);
        visit_block(region, at + done * kWordBytes, size, words.subspan(done, size));
        done += size;
      }
      at += done * kWordBytes;
      least = 1;
      if (done == words.size()) continue;
      const std::uint64_t size = words_with_header(words[done]);
      if (size > left - done) return overrun(region, at, words[done]);
      if (size <= HeapWindow::kWords && (is_whole(words[done]) || words.size() - done <= kEnough)) {
        least = size;  // the whole block, next time
      } else {
        ASSIGN_OR_RETURN(at, visit_cut(region, at, size));
      }
    }
    return absl::OkStatus();
  }

  void visit_block(const HeapRegion& region, std::uint64_t address, std::uint64_t size,
                   std::span<const std::uint64_t> words) {
    const BlockState state = map_.colours.state_of(region.kind, address, words[0]);
    visit_(region, BlockPart{address, words[0], size, state, 0, words.subspan(1)});
  }

  // Visits a block that does not fit into the window, in parts. Returns the address of the next
  // block.
  absl::StatusOr<std::uint64_t> visit_cut(const HeapRegion& region, std::uint64_t address,
                                          std::uint64_t size) {
    ASSIGN_OR_RETURN(auto words, window_.at(address, kEnough + 1, run_end_));
    words = words.first(std::min<std::uint64_t>(words.size(), size));
    visit_block(region, address, size, words);
    const std::uint64_t header = words[0];
    const std::uint64_t end = address + size * kWordBytes;
    const BlockState state = map_.colours.state_of(region.kind, address, header);
    std::uint64_t at = address + words.size() * kWordBytes;
    while (at < end && is_whole(header) && state == BlockState::kUsed) {
      ASSIGN_OR_RETURN(words, window_.at(at, 1, run_end_));
      words = words.first(std::min<std::uint64_t>(words.size(), (end - at) / kWordBytes));
      visit_(region,
             BlockPart{address, header, size, state, (at - address) / kWordBytes - 1, words});
      at += words.size() * kWordBytes;
    }
    return end;
  }

  static absl::Status overrun(const HeapRegion& region, std::uint64_t address,
                              std::uint64_t header) {
    return absl::DataLossError(fmt::format(
        "the layout of the heap does not match its OCaml version: a block of {} words at "
        "{:#x} does not fit in what ends at {:#x}",
        words_with_header(header), address, region.end()));
  }

  bool is_whole(std::uint64_t header) const { return tag_of(header) <= whole_; }

  static constexpr std::size_t kEnough = 21;  // fields of a block that does not come whole

  const HeapMap& map_;
  Visitor& visit_;
  const unsigned whole_;
  HeapWindow window_;
  std::uint64_t run_end_ = 0;
};

// Returns the errors of the memory, or kDataLoss, in one line.
template <typename Visitor>
absl::Status walk_heap(const MemoryReader& memory, const HeapMap& map, Visitor&& visit,
                       unsigned whole = kWhole) {
  return HeapWalk<Visitor>(memory, map, visit, whole).run();
}

}  // namespace memprofd
