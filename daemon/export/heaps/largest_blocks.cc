// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/largest_blocks.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/export/heaps/heap_answers.h"
#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/path_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/tree_rows.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

constexpr std::size_t kMaxRows = 1'000;

std::uint64_t size_of(const HeapImage& image, std::uint32_t block) {
  return image.shape(block).words * kWordBytes + image.outside_bytes(block);
}

std::vector<std::uint32_t> largest_blocks(const HeapImage& image, std::size_t count) {
  std::vector<std::uint32_t> largest;
  const auto is_larger = [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(size_of(image, b), a) < std::pair(size_of(image, a), b);
  };
  // A binary heap of the largest blocks so far; the smallest of them is in front.
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    if (largest.size() == count) {
      if (!is_larger(block, largest.front())) continue;
      std::ranges::pop_heap(largest, is_larger);
      largest.pop_back();
    }
    largest.push_back(block);
    std::ranges::push_heap(largest, is_larger);
  }
  std::ranges::sort(largest, is_larger);
  return largest;
}

std::string path_to(const HeapImage& image, const BlockClasses& classes, const ShortestPaths& paths,
                    std::uint32_t block) {
  PathTree tree(image, classes, paths);
  tree.add(block, {.blocks = 1});
  tree.sum_up();
  const std::vector<TreeLine> lines = path_lines(tree, {.limit = 0});
  return lines.empty() ? "" : lines[0].text;
}

}  // namespace

pb::HeapLargest largest_answer(const HeapImage& image, const ShortestPaths& paths,
                               std::size_t rows) {
  const BlockClasses classes(image);
  absl::flat_hash_map<std::uint32_t, std::uint32_t> sites;
  for (const SampledBlock& sampled : image.sampled) sites[sampled.block] = sampled.site;
  const std::size_t count = rows == 0 || rows > kMaxRows ? kMaxRows : rows;
  pb::HeapLargest out;
  *out.mutable_snapshot() = to_proto(image.info);
  for (const std::uint32_t block : largest_blocks(image, count)) {
    pb::LargestBlock& row = *out.add_blocks();
    row.set_class_name(valid_utf8(classes.text(classes.of(block))));
    row.set_bytes(image.shape(block).words * kWordBytes);
    row.set_outside_bytes(image.outside_bytes(block));
    if (paths.is_reachable(block)) row.set_path(valid_utf8(path_to(image, classes, paths, block)));
    const auto site = sites.find(block);
    if (site != sites.end()) row.set_site(valid_utf8(site_name(image, site->second)));
  }
  out.set_more_blocks(image.blocks() - static_cast<std::uint64_t>(out.blocks_size()));
  return out;
}

}  // namespace memprofd
