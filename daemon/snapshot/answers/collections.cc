// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/collections.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>

#include "absl/container/flat_hash_set.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kNone = HeapImage::kNoBlock;

bool is_plain(const HeapImage& image, std::uint32_t block, std::uint64_t fields) {
  const BlockShape& shape = image.shape(block);
  return shape.tag == 0 && shape.words == fields + 1;
}

// Number of cells of this size that are linked by their last field; 0 if the list does not end.
std::uint64_t count_cells(const HeapImage& image, std::uint32_t cell, std::uint64_t fields) {
  std::uint64_t count = 0;
  while (cell != kNone && is_plain(image, cell, fields)) {
    if (++count > image.blocks()) return 0;
    cell = block_in_field(image, cell, static_cast<std::uint32_t>(fields - 1));
  }
  return count;
}

std::optional<Collection> as_list(const HeapImage& image, std::uint32_t block) {
  const std::uint64_t cells = count_cells(image, block, 2);
  if (cells < 2) return std::nullopt;
  return Collection{.kind = Collection::Kind::kList, .size = cells};
}

void count_chain(std::uint64_t bindings, Collection& table) {
  const std::size_t place = std::min<std::uint64_t>(bindings, Collection::kCountedChains);
  if (table.chains.size() <= place) table.chains.resize(place + 1);
  ++table.chains[place];
  table.size += bindings;
  table.longest_chain = std::max(table.longest_chain, bindings);
}

// {size; buckets; seed; initial size}, each bucket a chain of {key; data; next}.
std::optional<Collection> as_table(const HeapImage& image, std::uint32_t block) {
  if (!is_plain(image, block, 4) || image.edges.of(block).size() != 1) return std::nullopt;
  const std::uint32_t data = block_in_field(image, block, 1);
  if (data == kNone) return std::nullopt;
  const BlockShape& shape = image.shape(data);
  const std::uint64_t buckets = shape.words - 1;
  if (shape.tag != 0 || !std::has_single_bit(buckets)) return std::nullopt;
  const auto chains = image.edges.of(data);
  if (chains.size() > buckets) return std::nullopt;
  Collection table{.kind = Collection::Kind::kTable,
                   .buckets = buckets,
                   .empty_buckets = buckets - chains.size()};
  if (table.empty_buckets > 0) table.chains = {table.empty_buckets};
  for (const std::uint32_t chain : chains) {
    const std::uint64_t bindings = count_cells(image, chain, 3);
    if (bindings == 0 || table.size > image.blocks()) return std::nullopt;
    count_chain(bindings, table);
  }
  return table;
}

// Counts the nodes of a tree, and detects blocks that are not a tree.
class TreeCount {
 public:
  TreeCount(const HeapImage& image, std::uint64_t fields)
      : image_(image), fields_(fields), right_(static_cast<std::uint32_t>(fields - 2)) {}

  // Returns the height of the subtree; nothing if it is not a tree.
  std::optional<int> height(std::uint32_t node, int room) {
    if (node == kNone) return 0;
    if (room == 0 || !is_plain(image_, node, fields_) || ++size > image_.blocks()) {
      return std::nullopt;
    }
    const auto left = height(block_in_field(image_, node, 0), room - 1);
    const auto right = left ? height(block_in_field(image_, node, right_), room - 1) : std::nullopt;
    if (!right || std::abs(*left - *right) > kMaxUneven) return std::nullopt;
    return 1 + std::max(*left, *right);
  }

  std::uint64_t size = 0;
  static constexpr int kMaxHigh = 64;

 private:
  static constexpr int kMaxUneven = 2;  // stdlib/map.ml

  const HeapImage& image_;
  const std::uint64_t fields_;
  const std::uint32_t right_;
};

// {left; key; data; right; height}, or without data.
std::optional<Collection> as_tree(const HeapImage& image, std::uint32_t block) {
  const std::uint64_t fields = image.shape(block).words - 1;
  if (fields != 4 && fields != 5) return std::nullopt;
  TreeCount count(image, fields);
  if (!count.height(block, TreeCount::kMaxHigh) || count.size < 2) return std::nullopt;
  return Collection{.kind = Collection::Kind::kTree, .size = count.size};
}

}  // namespace

std::uint32_t block_in_field(const HeapImage& image, std::uint32_t block, std::uint32_t field) {
  const std::uint64_t first = image.edges.first[block];
  const auto fields = std::span(image.fields).subspan(first, image.edges.of(block).size());
  const auto found = std::ranges::lower_bound(fields, field);
  if (field >= HeapImage::kFarField || found == fields.end() || *found != field) return kNone;
  return image.edges.to[first + static_cast<std::uint64_t>(found - fields.begin())];
}

std::optional<Collection> find_collection(const HeapImage& image, std::uint32_t block) {
  if (auto list = as_list(image, block)) return list;
  if (auto table = as_table(image, block)) return table;
  return as_tree(image, block);
}

std::uint64_t reachable_words(const HeapImage& image, std::uint32_t block) {
  absl::flat_hash_set<std::uint32_t> seen{block};
  std::vector<std::uint32_t> todo{block};
  std::uint64_t words = 0;
  while (!todo.empty()) {
    const std::uint32_t next = todo.back();
    todo.pop_back();
    words += image.shape(next).words;
    for (const std::uint32_t held : image.edges.of(next)) {
      if (seen.insert(held).second) todo.push_back(held);
    }
  }
  return words;
}

std::uint32_t block_of_global(const HeapImage& image, std::string_view module,
                              std::uint32_t field) {
  const auto found = std::ranges::find_if(image.roots, [&](const ImageRoot& root) {
    const RootName& name = image.root_names[root.name];
    return name.kind == RootKind::kGlobal && name.field == field && name.owner == module;
  });
  return found == image.roots.end() ? kNone : found->block;
}

}  // namespace memprofd
