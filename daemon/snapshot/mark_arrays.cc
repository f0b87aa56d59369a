// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/mark_arrays.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// A weak array begins with a link and an unused place for data.
constexpr std::uint64_t kFirstPlace = 2;
constexpr std::size_t kMaxStores = 1024;    // one per domain
constexpr std::uint64_t kReadsOfStore = 5;  // reads for a store, without its arrays
constexpr std::size_t kWordsAtOnce = 512;
static_assert(kWordsAtOnce % 2 == 0);

class MarkWalk {
 public:
  using Use = std::function<bool(std::span<const std::uint64_t> places)>;

  MarkWalk(const MemoryReader& memory, std::uint64_t& reads_left, const Use& use)
      : memory_(memory), reads_left_(reads_left), use_(use) {}

  MarkArrays run(std::uint64_t root) {
    const auto holder = first_field(root);
    auto list = holder ? first_field(*holder) : std::nullopt;
    if (!list) return found_;
    for (std::size_t stores = 0; may_be_block(*list) && wanted_; ++stores) {
      if (stores == kMaxStores || reads_left_ < kReadsOfStore) {
        found_.are_whole = false;
        break;
      }
      const auto store = first_field(*list);
      const auto arrays = store ? first_field(*store) : std::nullopt;
      list = arrays ? word_at(*list + kWordBytes) : std::nullopt;
      if (!list) return found_;
      read_arrays(*arrays);
    }
    found_.are_marks = true;
    return found_;
  }

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t header = 0;
  };

  bool read(std::uint64_t address, std::span<std::uint64_t> words) {
    if (reads_left_ == 0) return wanted_ = false;
    --reads_left_;
    return memory_.read(address, std::as_writable_bytes(words)).ok();
  }

  std::optional<std::uint64_t> word_at(std::uint64_t address) {
    std::uint64_t word = 0;
    return read(address, std::span(&word, 1)) ? std::optional(word) : std::nullopt;
  }

  std::optional<Block> block_at(std::uint64_t address) {
    const auto header = may_be_block(address) ? word_at(address - kWordBytes) : std::nullopt;
    return header ? std::optional(Block{address, *header}) : std::nullopt;
  }

  std::optional<std::uint64_t> first_field(std::uint64_t address) {
    const auto block = block_at(address);
    const bool has_one = block && tag_of(block->header) == 0 && fields_of(block->header) > 0;
    return has_one ? word_at(address) : std::nullopt;
  }

  // Calls use with the words of the block from the first one on, in parts. Returns false if not all
  // of them could be read.
  template <typename F>
  bool each_part(const Block& block, std::uint64_t first, F use) {
    std::array<std::uint64_t, kWordsAtOnce> words;
    const std::uint64_t end = fields_of(block.header);
    for (std::uint64_t i = first; i < end && wanted_;) {
      const auto part = std::span(words).first(std::min<std::uint64_t>(end - i, words.size()));
      if (!read(block.address + i * kWordBytes, part)) return false;
      use(std::span<const std::uint64_t>(part));
      i += part.size();
    }
    return true;
  }

  void read_arrays(std::uint64_t address) {
    const auto arrays = block_at(address);
    const bool is_read = arrays && each_part(*arrays, 0, [&](std::span<const std::uint64_t> all) {
                           for (std::size_t i = 0; i < all.size() && wanted_; ++i) {
                             read_array(all[i]);
                           }
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
  std::uint64_t& reads_left_;
  const Use& use_;
  bool wanted_ = true;  // false: the caller has enough, or no reads are left
  MarkArrays found_;
};

}  // namespace

bool may_be_block(std::uint64_t word) {
  return word % kWordBytes == 0 && word >= kWordBytes && word < kEndOfMemory;
}

MarkArrays read_mark_arrays(const MemoryReader& memory, std::uint64_t root,
                            std::uint64_t& reads_left,
                            const std::function<bool(std::span<const std::uint64_t>)>& use) {
  return MarkWalk(memory, reads_left, use).run(root);
}

}  // namespace memprofd
