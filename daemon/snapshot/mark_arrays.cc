// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/mark_arrays.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// A weak array begins with a link and, as it has none, a place for data.
constexpr std::uint64_t kFirstPlace = 2;
constexpr std::size_t kMaxStores = 1024;  // one a domain
constexpr std::size_t kWordsAtOnce = 512;
static_assert(kWordsAtOnce % 2 == 0);

class MarkWalk {
 public:
  using Use = std::function<bool(std::span<const std::uint64_t> places)>;

  MarkWalk(const MemoryReader& memory, const Use& use) : memory_(memory), use_(use) {}

  MarkArrays run(std::uint64_t root) {
    const auto holder = first_field(root);
    auto list = holder ? first_field(*holder) : std::nullopt;
    if (!list) return found_;
    for (std::size_t stores = 0; may_be_block(*list) && wanted_; ++stores) {
      const auto store = first_field(*list);
      const auto arrays = store ? first_field(*store) : std::nullopt;
      std::uint64_t next = 0;
      if (!arrays || !memory_.read_value(*list + kWordBytes, next).ok()) return found_;
      if (stores == kMaxStores) {
        found_.are_whole = false;
        break;
      }
      read_arrays(*arrays);
      list = next;
    }
    found_.are_marks = true;
    return found_;
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

  std::optional<std::uint64_t> first_field(std::uint64_t address) const {
    const auto block = block_at(address);
    std::uint64_t word = 0;
    if (!block || tag_of(block->header) != 0 || fields_of(block->header) == 0 ||
        !memory_.read_value(address, word).ok()) {
      return std::nullopt;
    }
    return word;
  }

  // Calls use with the words of the block from the first one on, in parts. False: not all of them
  // could be read.
  template <typename F>
  bool each_part(const Block& block, std::uint64_t first, F use) {
    std::array<std::uint64_t, kWordsAtOnce> words;
    const std::uint64_t end = fields_of(block.header);
    for (std::uint64_t i = first; i < end && wanted_;) {
      const auto part = std::span(words).first(std::min<std::uint64_t>(end - i, words.size()));
      if (!memory_.read(block.address + i * kWordBytes, std::as_writable_bytes(part)).ok()) {
        return false;
      }
      use(std::span<const std::uint64_t>(part));
      i += part.size();
    }
    return true;
  }

  void read_arrays(std::uint64_t address) {
    const auto arrays = block_at(address);
    const bool is_read = arrays && each_part(*arrays, 0, [&](std::span<const std::uint64_t> all) {
                           for (const std::uint64_t weak : all) read_array(weak);
                         });
    if (!is_read) found_.are_whole = false;
  }

  void read_array(std::uint64_t weak) {
    const auto array = block_at(weak);
    const bool is_read = array && tag_of(array->header) == kAbstractTag &&
                         each_part(*array, kFirstPlace, [&](std::span<const std::uint64_t> places) {
                           wanted_ = use_(places);
                         });
    if (!is_read) found_.are_whole = false;
  }

  const MemoryReader& memory_;
  const Use& use_;
  bool wanted_ = true;
  MarkArrays found_;
};

}  // namespace

bool may_be_block(std::uint64_t word) {
  return word % kWordBytes == 0 && word >= kWordBytes && word < kEndOfMemory;
}

MarkArrays read_mark_arrays(const MemoryReader& memory, std::uint64_t root,
                            const std::function<bool(std::span<const std::uint64_t>)>& use) {
  return MarkWalk(memory, use).run(root);
}

}  // namespace memprofd
