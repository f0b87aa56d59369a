// SPDX-License-Identifier: Apache-2.0
// Recognises lists, hash tables, maps and sets of a heap image by the pattern of their pointers,
// and counts them, whatever their size. An image contains neither integers nor keys, so a large
// structure is recognised only if all of its blocks agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct Collection {
  enum class Kind { kList, kTable, kTree };
  Kind kind = Kind::kList;
  std::uint64_t size = 0;  // elements, bindings
  // Tables have these.
  std::uint64_t buckets = 0;
  std::uint64_t empty_buckets = 0;
  std::uint64_t longest_chain = 0;
  // Number of buckets by number of bindings; the last entry counts buckets with kCountedChains and
  // more.
  static constexpr std::size_t kCountedChains = 16;
  std::vector<std::uint64_t> chains;
};

// Returns nullopt if the block is none of them. A list has at least two cells; a tree, of Map or
// Set, has a possible height. Static data of the program is not in an image and not counted.
std::optional<Collection> find_collection(const HeapImage& image, std::uint32_t block);

// Words of everything reachable from the block, each block once, including headers, without
// following weak pointers.
std::uint64_t reachable_words(const HeapImage& image, std::uint32_t block);

// The block in a field of a module; kNoBlock: the field holds no block, or there is no such module.
std::uint32_t block_of_global(const HeapImage& image, std::string_view module, std::uint32_t field);
// The block in a field of a block; kNoBlock: no block of the image.
std::uint32_t block_in_field(const HeapImage& image, std::uint32_t block, std::uint32_t field);

}  // namespace memprofd
