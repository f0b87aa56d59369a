// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/container_growth.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/collections.h"
#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/shortest_paths.h"

namespace memprofd {
namespace {

// A variable is often a reference to a collection, or a record with one.
constexpr int kDepth = 3;
constexpr std::uint32_t kFields = 16;

const char* collection_text(Collection::Kind kind) {
  if (kind == Collection::Kind::kTable) return "Hashtbl";
  return kind == Collection::Kind::kList ? "list" : "Map or Set";
}

// The largest collection within a few steps.
std::optional<Collection> largest_collection(const HeapImage& image, std::uint32_t block,
                                             int depth) {
  if (block == HeapImage::kNoBlock || depth == 0) return std::nullopt;
  std::optional<Collection> largest = find_collection(image, block);
  if (largest) return largest;
  const auto fields =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(image.shape(block).words - 1, kFields));
  for (std::uint32_t field = 0; field < fields; ++field) {
    auto inner = largest_collection(image, block_in_field(image, block, field), depth - 1);
    if (inner && (!largest || inner->size > largest->size)) largest = std::move(inner);
  }
  return largest;
}

// For each root name, the site with the most memory nearest to that root.
std::vector<std::string> sites_of_roots(const HeapImage& image) {
  const std::vector<std::uint32_t> nearest = ShortestPaths(image).nearest_roots();
  std::vector<std::map<std::uint32_t, double>> words(image.root_names.size());
  for (const SampledBlock& sampled : image.sampled) {
    if (sampled.block == HeapImage::kNoBlock) continue;
    const std::uint32_t root = nearest[sampled.block];
    if (root == ShortestPaths::kUnreachable) continue;
    words[root][sampled.site] += sum_of(image, sampled).estimate.words;
  }
  std::vector<std::string> sites(image.root_names.size());
  for (std::size_t root = 0; root < words.size(); ++root) {
    const auto most = std::ranges::max_element(
        words[root], {}, [](const auto& site_words) { return site_words.second; });
    if (most != words[root].end()) sites[root] = site_name(image, most->first);
  }
  return sites;
}

}  // namespace

std::vector<Container> find_containers(HeapImage& image) {
  const std::vector<std::string> sites = sites_of_roots(image);
  const RootTree tree = make_root_tree(image);
  constexpr std::uint32_t kNoName = ~0u;
  std::vector<std::uint32_t> name_of_node(tree.nodes.size(), kNoName);
  for (std::uint32_t name = 0; name < tree.of_name.size(); ++name) {
    name_of_node[tree.of_name[name]] = name;
  }
  std::vector<std::uint32_t> block_of_name(image.root_names.size(), HeapImage::kNoBlock);
  for (const ImageRoot& root : image.roots) block_of_name[root.name] = root.block;
  const RetainedTable table = find_retained(image, {.depth = 1});
  const BlockClasses classes(image);
  std::vector<Container> result;
  for (const RetainedRow& row : table.rows) {
    if (row.what == RetainedRow::What::kBlocks || row.words == 0) continue;
    const bool is_shared = row.what == RetainedRow::What::kShared;
    const std::uint32_t name = is_shared ? row.number : name_of_node[row.number];
    if (name == kNoName) continue;  // a name of many roots, which have rows of their own
    Container container{.root = root_text(image.root_names[name]) + (is_shared ? ", shared" : ""),
                        .on_stack = image.root_names[name].kind == RootKind::kStack,
                        .words = row.words,
                        .site = sites[name]};
    if (const std::uint32_t block = block_of_name[name]; block != HeapImage::kNoBlock) {
      const auto collection = largest_collection(image, block, kDepth);
      container.kind =
          collection ? collection_text(collection->kind) : classes.text(classes.of(block));
      container.has_entries = collection.has_value();
      if (collection) container.entries = collection->size;
    }
    result.push_back(std::move(container));
  }
  std::ranges::stable_sort(result, {}, &Container::root);
  return result;
}

std::vector<ContainerGrowth> container_growth(const std::vector<Container>& before,
                                              const std::vector<Container>& after) {
  std::map<std::string, const Container*> known;
  for (const Container& container : before) known.emplace(container.root, &container);
  std::vector<ContainerGrowth> result;
  for (const Container& container : after) {
    const auto found = known.find(container.root);
    const Container* earlier = found == known.end() ? nullptr : found->second;
    const std::uint64_t words = earlier == nullptr ? 0 : earlier->words;
    if (container.words <= words || (container.on_stack && words < container.words / 2)) continue;
    ContainerGrowth& growth = result.emplace_back();
    growth.container = container;
    growth.words = container.words - words;
    if (container.has_entries && (earlier == nullptr || earlier->has_entries)) {
      growth.entries = static_cast<std::int64_t>(container.entries) -
                       static_cast<std::int64_t>(earlier == nullptr ? 0 : earlier->entries);
    }
  }
  std::ranges::stable_sort(result, std::greater<>(), &ContainerGrowth::words);
  // Drops small growth: frames of stacks come and go, and entries are replaced by larger ones.
  constexpr std::uint64_t kSmallest = 50;
  std::erase_if(result, [most = result.empty() ? 0 : result[0].words](const ContainerGrowth& row) {
    return row.words < most / kSmallest;
  });
  return result;
}

}  // namespace memprofd
