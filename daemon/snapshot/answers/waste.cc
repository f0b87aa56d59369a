// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/waste.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kSmallestTable = 16;  // of Hashtbl, whose sizes are powers of two
constexpr std::uint64_t kLeastArray = 64;

bool is_block(const BlockShape& shape, std::uint64_t fields) {
  return shape.tag == 0 && shape.words == fields + 1;
}

class WasteFinder {
 public:
  explicit WasteFinder(const HeapImage& image) : image_(image) {}

  // The pattern and what can be won, in words; 0: nothing.
  struct Found {
    WastePattern pattern = WastePattern::kBoxedFloats;
    std::uint64_t words = 0;
    std::uint64_t words_to_win = 0;
  };
  Found look_at(std::uint32_t block) const {
    const BlockShape& shape = image_.shape(block);
    if (shape.tag == kFloatTag) return {WastePattern::kBoxedFloats, shape.words, shape.words};
    if (shape.tag == kCustomTag) return look_at_custom(shape);
    if (is_block(shape, 4)) return look_at_table(block);
    if (shape.tag == 0 && shape.words > kLeastArray) return look_at_array(block);
    return {};
  }

 private:
  Found look_at_custom(const BlockShape& shape) const {
    const std::string& name = image_.texts[shape.name];
    if (name != "_i" && name != "_j" && name != "_n") return {};
    return {WastePattern::kBoxedIntegers, shape.words, shape.words};
  }

  // { size; data; seed; initial_size }, where data alone is a pointer, to an array of buckets
  // { key; data; next }.
  Found look_at_table(std::uint32_t block) const {
    const auto held = image_.edges.of(block);
    if (held.size() != 1 || image_.fields[image_.edges.first[block]] != 1) return {};
    const BlockShape& data = image_.shape(held[0]);
    const std::uint64_t fields = data.words - 1;
    if (data.tag != 0 || fields < kSmallestTable || !std::has_single_bit(fields)) return {};
    const auto buckets = image_.edges.of(held[0]);
    for (const std::uint32_t bucket : buckets) {
      if (!is_block(image_.shape(bucket), 3)) return {};
    }
    const std::uint64_t needed =
        std::max(kSmallestTable, std::bit_ceil(std::uint64_t{buckets.size()}) * 2);
    if (fields <= 2 * needed) return {};
    return {WastePattern::kSparseTables, data.words, fields - needed};
  }

  // The block that most fields hold, if there is one, is found by votes (Boyer and Moore).
  Found look_at_array(std::uint32_t block) const {
    const auto held = image_.edges.of(block);
    const std::uint64_t words = image_.shape(block).words;
    if (held.size() * 4 < words * 3) return {};
    std::uint32_t most = held[0];
    std::uint64_t votes = 0;
    for (const std::uint32_t one : held) {
      if (votes == 0) most = one;
      votes = one == most ? votes + 1 : votes - 1;
    }
    const auto same = static_cast<std::uint64_t>(std::count(held.begin(), held.end(), most));
    if (same * 4 < words * 3) return {};
    return {WastePattern::kFilledArrays, words, same};
  }

  const HeapImage& image_;
};

}  // namespace

WasteText describe(WastePattern pattern) {
  switch (pattern) {
    case WastePattern::kSparseTables:
      return {"sparse hash tables", "create them smaller; Hashtbl.reset instead of clear"};
    case WastePattern::kFilledArrays:
      return {"arrays filled with one block", "make them as long as they are used; a Hashtbl"};
    case WastePattern::kBoxedFloats:
      return {"boxed floats", "records of floats alone, float arrays, Float.Array"};
    case WastePattern::kBoxedIntegers:
      break;
  }
  return {"boxed integers (int32, int64, nativeint)", "int where 63 bits do; Bigarray, Bytes"};
}

std::vector<WasteRow> find_waste(const HeapImage& image, const ShortestPaths& paths) {
  const std::vector<std::uint32_t> roots = paths.nearest_roots();
  const WasteFinder finder(image);
  std::array<WasteRow, kWastePatterns> rows;
  std::array<absl::flat_hash_map<std::uint32_t, std::uint64_t>, kWastePatterns> places;
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    if (!paths.is_reachable(block)) continue;
    const WasteFinder::Found found = finder.look_at(block);
    if (found.words_to_win == 0) continue;
    const auto at = static_cast<std::size_t>(found.pattern);
    rows[at].pattern = found.pattern;
    ++rows[at].blocks;
    rows[at].words += found.words;
    rows[at].words_to_win += found.words_to_win;
    places[at][roots[block]] += found.words_to_win;
  }
  std::vector<WasteRow> result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].blocks == 0) continue;
    for (const auto& [root, words] : places[i]) rows[i].places.push_back({root, words});
    std::sort(
        rows[i].places.begin(), rows[i].places.end(), [](const WastePlace& a, const WastePlace& b) {
          return std::pair(b.words_to_win, a.root_name) < std::pair(a.words_to_win, b.root_name);
        });
    result.push_back(std::move(rows[i]));
  }
  std::stable_sort(result.begin(), result.end(), [](const WasteRow& a, const WasteRow& b) {
    return a.words_to_win > b.words_to_win;
  });
  return result;
}

}  // namespace memprofd
