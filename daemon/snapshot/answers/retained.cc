// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/retained.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/dominators.h"

namespace memprofd {
namespace {

class TableBuilder {
 public:
  TableBuilder(const HeapImage& image, const RootTree& roots, const RetainedOptions& options)
      : image_(image), roots_(roots), options_(options), classes_(image) {
    std::vector<bool> has_roots_below(roots.nodes.size());
    for (std::uint32_t node = 1; node < roots.nodes.size(); ++node) {
      has_roots_below[roots.nodes[node].parent] = true;
    }
    for (std::uint32_t node = 0; node < roots.nodes.size(); ++node) {
      const RootNode& root = roots.nodes[node];
      table_.rows.push_back({.parent = root.parent,
                             .what = RetainedRow::What::kRoots,
                             .number = node,
                             .name = root.name});
      is_last_.push_back(!has_roots_below[node]);
    }
  }

  RetainedTable build(DominatorTree tree) {
    const auto order = tree.order();
    const auto row_of = tree.take_dominators();  // each entry is replaced by the row of its block
    nearest_ = ShortestPaths(image_).nearest_roots();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint32_t node = order[i];
      if (node >= image_.blocks()) continue;
      // The root of all roots is the only entry.
      const std::uint32_t at = row_of[i] - 1;
      const std::uint32_t above = order[at];
      const std::uint32_t row = above < image_.blocks() ? below_block(row_of[at], node)
                                                        : below_root(above - image_.blocks(), node);
      row_of[i] = row;
      ++table_.rows[row].own_blocks;
      table_.rows[row].own_words += image_.shape(node).words;
      table_.rows[row].own_outside_bytes += image_.outside_bytes(node);
    }
    sum_up();
    return std::move(table_);
  }

 private:
  std::uint32_t below_root(std::uint32_t root, std::uint32_t block) {
    const std::uint32_t row = is_last_[root] ? root : shared_row(root, nearest_[block]);
    return row_below(row, classes_.of(block));
  }
  std::uint32_t shared_row(std::uint32_t root, std::uint32_t nearest) {
    const auto next = static_cast<std::uint32_t>(table_.rows.size());
    const auto [at, is_new] = shared_rows_.try_emplace(std::pair(root, nearest), next);
    if (is_new) {
      table_.rows.push_back({.parent = root,
                             .what = RetainedRow::What::kShared,
                             .number = nearest,
                             .name = "several, nearest " + root_text(image_.root_names[nearest])});
    }
    return at->second;
  }
  // A class below itself uses the same row, so a list is one row, however long.
  std::uint32_t below_block(std::uint32_t row, std::uint32_t block) {
    const std::uint32_t block_class = classes_.of(block);
    return table_.rows[row].number == block_class ? row : row_below(row, block_class);
  }
  std::uint32_t row_below(std::uint32_t parent, std::uint32_t block_class) {
    const std::uint32_t down = table_.rows[parent].blocks_down + 1;
    if (down > std::max(options_.depth, 1u)) return parent;
    const auto next = static_cast<std::uint32_t>(table_.rows.size());
    if (next >= options_.max_rows && table_.rows[parent].what == RetainedRow::What::kBlocks) {
      const auto known = rows_below_.find({parent, block_class});
      if (known != rows_below_.end()) return known->second;
      ++table_.blocks_without_row;
      return parent;
    }
    const auto [at, is_new] = rows_below_.try_emplace(std::pair(parent, block_class), next);
    if (is_new) {
      table_.rows.push_back({.parent = parent,
                             .what = RetainedRow::What::kBlocks,
                             .number = block_class,
                             .blocks_down = down,
                             .name = classes_.text(block_class)});
    }
    return at->second;
  }

  void sum_up() {
    auto& rows = table_.rows;
    for (RetainedRow& row : rows) {
      row.blocks = row.own_blocks;
      row.words = row.own_words;
      row.outside_bytes = row.own_outside_bytes;
    }
    for (std::size_t i = rows.size() - 1; i > 0; --i) {
      rows[rows[i].parent].blocks += rows[i].blocks;
      rows[rows[i].parent].words += rows[i].words;
      rows[rows[i].parent].outside_bytes += rows[i].outside_bytes;
    }
  }

  const HeapImage& image_;
  const RootTree& roots_;
  const RetainedOptions options_;
  const BlockClasses classes_;
  RetainedTable table_;
  std::vector<bool> is_last_;           // by node of the root tree: no node is below it
  std::vector<std::uint32_t> nearest_;  // by block
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> shared_rows_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> rows_below_;
};

}  // namespace

std::string RetainedTable::full_name(std::uint32_t row) const {
  std::string name = rows[row].name;
  for (row = rows[row].parent; row != 0; row = rows[row].parent) {
    name = rows[row].name + " / " + name;
  }
  return name;
}

std::vector<std::uint32_t> RetainedTable::roots_named(
    const std::function<bool(const std::string&)>& is_taken) const {
  std::vector<std::uint32_t> taken;
  std::vector<bool> is_below(rows.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].what != RetainedRow::What::kRoots) continue;
    is_below[i] = is_below[rows[i].parent];
    if (is_below[i] || !is_taken(full_name(i))) continue;
    taken.push_back(i);
    is_below[i] = true;
  }
  return taken;
}

std::vector<std::vector<std::uint32_t>> RetainedTable::children() const {
  std::vector<std::vector<std::uint32_t>> children(rows.size());
  for (std::uint32_t i = 1; i < rows.size(); ++i) children[rows[i].parent].push_back(i);
  for (auto& of_row : children) {
    std::stable_sort(of_row.begin(), of_row.end(), [&](std::uint32_t a, std::uint32_t b) {
      return rows[a].all_bytes() > rows[b].all_bytes();
    });
  }
  return children;
}

RetainedTable find_retained(HeapImage& image, const RetainedOptions& options) {
  const RootTree roots = make_root_tree(image);
  const RootsInGraph in_graph(roots, image);
  DominatorTree tree(image.edges, std::array{image.blocks()});
  return TableBuilder(image, roots, options).build(std::move(tree));
}

}  // namespace memprofd
