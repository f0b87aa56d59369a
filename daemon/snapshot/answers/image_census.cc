// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/image_census.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kExactWords = 16;  // larger sizes are counted by powers of two

std::uint64_t most_words_of_row(std::uint64_t words) {
  return words <= kExactWords ? words : std::bit_ceil(words);
}

std::string size_text(std::uint64_t words) {
  const std::uint64_t most = most_words_of_row(words);
  if (most <= kExactWords) return fmt::format("{} words", most);
  return fmt::format("{} to {} words", format_count(most / 2 + 1), format_count(most));
}

// Reachable, garbage and dead blocks of one shape.
struct ShapeCount {
  std::uint64_t words = 0;  // of each block
  unsigned tag = 0;
  std::uint64_t blocks[3] = {};
  std::uint64_t outside_bytes[2] = {};

  void add_to(CensusRow& row) const {
    row.reachable.add({blocks[0], blocks[0] * words});
    row.garbage.add({blocks[1], blocks[1] * words});
    row.dead.add({blocks[2], blocks[2] * words});
    row.outside_reachable_bytes += outside_bytes[0];
    row.outside_garbage_bytes += outside_bytes[1];
  }
};

std::vector<ShapeCount> count_shapes(const HeapImage& image, const ShortestPaths& paths) {
  std::vector<ShapeCount> counts;
  for (const BlockShape& shape : image.shapes) {
    counts.push_back({.words = shape.words, .tag = shape.tag});
  }
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    ShapeCount& count = counts[image.shape_of[block]];
    const int state = paths.is_reachable(block) ? 0 : 1;
    ++count.blocks[state];
    count.outside_bytes[state] += image.outside_bytes(block);
  }
  for (const SizeRow& row : image.dead.rows()) {
    counts.push_back({.words = row.fields + 1, .tag = row.tag, .blocks = {0, 0, row.blocks}});
  }
  return counts;
}

// One row per name; name() returns it for a shape's number and count.
template <typename Key, typename Name>
std::vector<CensusRow> grouped(const std::vector<ShapeCount>& counts, Key key, Name name) {
  std::map<decltype(key(0u)), CensusRow> groups;
  for (std::uint32_t i = 0; i < counts.size(); ++i) {
    CensusRow& row = groups[key(i)];
    if (row.name.empty()) row.name = name(i);
    counts[i].add_to(row);
  }
  std::vector<CensusRow> rows;
  for (auto& [unused, row] : groups) {
    if (row.all().blocks != 0) rows.push_back(std::move(row));
  }
  return rows;
}

// Dead blocks have no names, so they are not counted by class.
std::vector<CensusRow> count_classes(const HeapImage& image, const ShortestPaths& paths,
                                     const BlockClasses& classes) {
  std::vector<CensusRow> rows(classes.size());
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    const BlockShape& shape = image.shape(block);
    CensusRow& row = rows[classes.without_fields_of(block)];
    const bool is_reachable = paths.is_reachable(block);
    (is_reachable ? row.reachable : row.garbage).add({1, shape.words});
    (is_reachable ? row.outside_reachable_bytes : row.outside_garbage_bytes) +=
        image.outside_bytes(block);
  }
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i].name = classes.text(i);
  std::erase_if(rows, [](const CensusRow& row) { return row.all().blocks == 0; });
  return rows;
}

void sort_by_words(std::vector<CensusRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const CensusRow& a, const CensusRow& b) {
    return a.all().words > b.all().words;
  });
}

std::string tag_row_text(unsigned tag, bool domains) {
  std::string text = tag_text(tag, domains);
  return text == "block" && tag != 0 ? fmt::format("block, tag {}", tag) : text;
}

void count_free(const HeapImage& image, ImageCensus& census) {
  std::map<std::uint64_t, BlockCount> rows;
  for (const SizeRow& row : image.free.rows()) {
    const BlockCount count{row.blocks, row.blocks * row.fields};
    rows[std::bit_ceil(row.fields)].add(count);
    census.free.add(count);
    census.largest_free_words = std::max(census.largest_free_words, row.fields);
  }
  for (const auto& [words, count] : rows) census.free_sizes.push_back({words, count});
}

}  // namespace

double ImageCensus::fragmentation() const {
  if (free.words == 0) return 0;
  return 1 - static_cast<double>(largest_free_words) / static_cast<double>(free.words);
}

TypedCount count_typed(const HeapImage& image, const ShortestPaths& paths) {
  TypedCount count{.found = image.types_found};
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    if (!paths.is_reachable(block)) continue;
    const std::uint64_t words = image.shape(block).words;
    count.reachable.add({1, words});
    if (!image.types[image.type(block)].name.empty()) count.typed.add({1, words});
  }
  return count;
}

ImageCensus count_image(const HeapImage& image, const ShortestPaths& paths) {
  const std::vector<ShapeCount> counts = count_shapes(image, paths);
  const bool domains = has_domains(image);
  const BlockClasses classes(image);
  ImageCensus census;
  census.by_tag = grouped(
      counts, [&](std::uint32_t i) { return tag_row_text(counts[i].tag, domains); },
      [&](std::uint32_t i) { return tag_row_text(counts[i].tag, domains); });
  census.by_size = grouped(
      counts, [&](std::uint32_t i) { return most_words_of_row(counts[i].words); },
      [&](std::uint32_t i) { return size_text(counts[i].words); });
  census.by_class = count_classes(image, paths, classes);
  sort_by_words(census.by_tag);
  sort_by_words(census.by_class);
  for (const ShapeCount& count : counts) count.add_to(census.total);
  for (const BlockRange& range : image.young) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      census.young.add({1, image.shape(i).words});
    }
  }
  census.types = count_typed(image, paths);
  count_free(image, census);
  return census;
}

}  // namespace memprofd
