// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tag_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// A weak array begins with a link and, as it has none, a place for data.
constexpr std::uint64_t kFirstPlace = 2;
constexpr std::size_t kMaxStores = 1024;  // one a domain
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

  static bool may_be_block(std::uint64_t word) {
    return word % kWordBytes == 0 && word >= kWordBytes && word < kEndOfMemory;
  }

  std::optional<Block> block_at(std::uint64_t address) const {
    Block block{.address = address};
    if (!may_be_block(address) || !memory_.read_value(address - kWordBytes, block.header).ok()) {
      return std::nullopt;
    }
    return block;
  }

  std::optional<std::uint64_t> first_field(std::uint64_t address) const {
    const auto block = block_at(address);
    std::uint64_t word = 0;
    if (!block || tag_of(block->header) != 0 || fields_of(block->header) == 0 ||
        !memory_.read_value(address, word).ok()) {
      return std::nullopt;
    }
    return word;
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
    const auto holder = first_field(root);
    auto list = holder ? first_field(*holder) : std::nullopt;
    if (!list) return false;
    for (std::size_t stores = 0; may_be_block(*list); ++stores) {
      const auto store = first_field(*list);
      const auto arrays = store ? first_field(*store) : std::nullopt;
      std::uint64_t next = 0;
      if (!arrays || !memory_.read_value(*list + kWordBytes, next).ok()) return false;
      if (stores == kMaxStores) return tag_.is_longer = true;
      add_arrays(*arrays);
      list = next;
    }
    return true;
  }

  void add_arrays(std::uint64_t address) {
    const auto arrays = block_at(address);
    const bool is_read = arrays && each_word(*arrays, 0, [&](std::uint64_t weak) {
                           const auto array = block_at(weak);
                           if (!array || tag_of(array->header) != kAbstractTag ||
                               !each_word(*array, kFirstPlace,
                                          [&](std::uint64_t word) { return add_place(word); })) {
                             tag_.is_longer = true;
                           }
                           return places_left_ > 0;
                         });
    tag_.is_longer |= !is_read || places_left_ == 0;
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
