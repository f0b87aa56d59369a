// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tag_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/mark_arrays.h"

namespace memprofd {
namespace {

constexpr std::size_t kWordsAtOnce = 512;

class TagWalk {
 public:
  TagWalk(const MemoryReader& memory, const AddressRange& image, std::uint64_t none,
          std::size_t max_blocks)
      : memory_(memory), image_(image), none_(none), max_blocks_(max_blocks) {}

  Value run(std::uint64_t root) {
    if (!find_places(root)) return {.kind = ValueKind::kUnread, .why = WhyUnread::kNotMapped};
    // add_fields() appends further blocks during the loop.
    for (std::size_t i = 0; i < blocks_.size(); ++i) add_fields(blocks_[i]);
    return std::move(tag_);
  }

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t header = 0;
  };

  std::optional<Block> block_at(std::uint64_t address) const {
    Block block{.address = address};
    if (!may_be_block(address) || !memory_.read_value(address - kWordBytes, block.header).ok()) {
      return std::nullopt;
    }
    return block;
  }

  // Calls f with each word of the block from the first on, until it returns false. Returns false if
  // not all of them could be read.
  template <typename F>
  bool each_word(const Block& block, std::uint64_t first, F f) const {
    std::array<std::uint64_t, kWordsAtOnce> words;
    const std::uint64_t end = fields_of(block.header);
    for (std::uint64_t i = first; i < end;) {
      const auto part = std::span(words).first(std::min<std::uint64_t>(end - i, words.size()));
      if (!memory_.read(block.address + i * kWordBytes, std::as_writable_bytes(part)).ok()) {
        return false;
      }
      for (const std::uint64_t word : part) {
        if (!f(word)) return true;
      }
      i += part.size();
    }
    return true;
  }

  // Returns true if this is a tag.
  bool find_places(std::uint64_t root) {
    std::uint64_t reads_left = kMaxMarkReads;
    const MarkArrays arrays =
        read_mark_arrays(memory_, root, reads_left, [this](std::span<const std::uint64_t> places) {
          for (const std::uint64_t word : places) {
            if (!add_place(word)) break;
          }
          return places_left_ > 0;
        });
    tag_.is_longer |= !arrays.are_whole || places_left_ == 0;
    return arrays.are_marks;
  }

  bool add_place(std::uint64_t word) {
    if (places_left_ == 0) return false;
    --places_left_;
    if (word != none_ && may_be_block(word)) {
      ++tag_.size;
      add_block(word);
    }
    return true;
  }

  // An address inside a closure belongs to that closure.
  void add_block(std::uint64_t word) {
    if (!may_be_block(word) || image_.contains(word) || seen_.contains(word)) return;
    auto block = block_at(word);
    if (block && tag_of(block->header) == kInfixTag) {
      seen_.insert(word);
      block = block_at(word - fields_of(block->header) * kWordBytes);
      if (!block || !seen_.insert(block->address).second) return;
    } else if (!seen_.insert(word).second) {
      return;
    }
    if (blocks_.size() >= max_blocks_) {
      tag_.is_more_memory = true;
      return;
    }
    if (!block) return;  // a word of C code, or memory of another file
    blocks_.push_back(*block);
    tag_.bytes += words_with_header(block->header) * kWordBytes;
  }

  void add_fields(const Block& block) {
    if (!holds_values(block.header)) return;
    const bool is_read = each_word(block, 0, [&](std::uint64_t word) {
      if (words_left_ == 0) tag_.is_more_memory = true;
      if (tag_.is_more_memory) return false;
      --words_left_;
      add_block(word);
      return true;
    });
    tag_.is_more_memory |= !is_read;
  }

  const MemoryReader& memory_;
  const AddressRange& image_;
  const std::uint64_t none_;
  const std::size_t max_blocks_;
  std::size_t places_left_ = kMaxMarkPlaces;
  std::size_t words_left_ = kMaxMarkedWords;
  absl::flat_hash_set<std::uint64_t> seen_;
  std::vector<Block> blocks_;
  Value tag_{.kind = ValueKind::kTag};
};

}  // namespace

Value read_tag(const MemoryReader& memory, const AddressRange& image, std::uint64_t root,
               std::uint64_t none, std::size_t blocks) {
  return TagWalk(memory, image, none, std::min(blocks, kMaxMarkedBlocks)).run(root);
}

}  // namespace memprofd
