// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/waste.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/answers/collections.h"
#include "daemon/snapshot/answers/equal_strings.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kSmallestTable = 16;  // for a Hashtbl, whose sizes are powers of two
constexpr std::uint64_t kMinArray = 64;

bool is_block(const BlockShape& shape, std::uint64_t fields) {
  return shape.tag == 0 && shape.words == fields + 1;
}

// A Hashtbl that was created with size 1, header included.
constexpr std::uint64_t kMinTable = 2;
constexpr std::uint64_t kLongChain = 16;

bool ends_with_list(const std::string& type) { return type.ends_with(" list"); }

class WasteFinder {
 public:
  WasteFinder(const HeapImage& image, const ShortestPaths& paths)
      : image_(image), paths_(paths), is_inner_(image.blocks()) {
    for (const BlockType& type : image.types) is_list_.push_back(ends_with_list(type.name));
    find_inner();
  }

  // The pattern, and the words that could be saved; 0: none.
  struct BlockWaste {
    WastePattern pattern = WastePattern::kBoxedFloats;
    std::uint64_t words = 0;
    std::uint64_t words_to_win = 0;
    std::uint64_t blocks = 1;
  };
  BlockWaste waste_of(std::uint32_t block) {
    const BlockShape& shape = image_.shape(block);
    if (shape.tag == kFloatTag) return {WastePattern::kBoxedFloats, shape.words, shape.words};
    if (shape.tag == kCustomTag) return check_custom(shape);
    if (shape.tag == kClosureTag) return check_closure(block);
    if (is_cell(block)) return check_list(block);
    if (is_block(shape, 4)) return check_table(block);
    if (shape.tag == 0 && shape.words > kMinArray) return check_array(block);
    return {};
  }

 private:
  bool is_cell(std::uint32_t block) const {
    return is_list_[image_.type(block)] && is_block(image_.shape(block), 2);
  }
  // The next cell of a list, or the next closure of the same function.
  std::uint32_t next(std::uint32_t block) const {
    const auto held = image_.edges.of(block);
    if (is_cell(block)) {
      const bool is_last = held.empty() || image_.fields[image_.edges.first[block + 1] - 1] != 1;
      return is_last ? HeapImage::kNoBlock : held.back();
    }
    const BlockShape& shape = image_.shape(block);
    if (shape.tag != kClosureTag) return HeapImage::kNoBlock;
    const auto same = std::ranges::find_if(held, [&](std::uint32_t other) {
      const BlockShape& its = image_.shape(other);
      return other != block && its.tag == kClosureTag && its.name == shape.name &&
             its.words == shape.words;
    });
    return same == held.end() ? HeapImage::kNoBlock : *same;
  }
  void find_inner() {
    for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
      if (!paths_.is_reachable(block)) continue;
      const std::uint32_t inner = next(block);
      if (inner != HeapImage::kNoBlock) is_inner_[inner] = true;
    }
  }

  BlockWaste check_custom(const BlockShape& shape) const {
    const std::string& name = image_.texts[shape.name];
    if (name != "_i" && name != "_j" && name != "_n") return {};
    return {WastePattern::kBoxedIntegers, shape.words, shape.words};
  }

  BlockWaste check_list(std::uint32_t block) const {
    if (is_inner_[block] || next(block) != HeapImage::kNoBlock) return {};
    const std::uint64_t words = image_.shape(block).words;
    return {WastePattern::kListsOfOne, words, words};
  }

  // Follows a chain from its head. A part that two chains share is counted once.
  BlockWaste check_closure(std::uint32_t block) {
    if (is_inner_[block]) return {};
    std::uint64_t length = 0;
    for (std::uint32_t at = block; at != HeapImage::kNoBlock && !seen_.contains(at);
         at = next(at)) {
      if (is_inner_[at]) seen_.insert(at);
      ++length;
    }
    if (length < kLongChain) return {};
    const std::uint64_t words = image_.shape(block).words;
    return {WastePattern::kClosureChains, length * words, (length - 1) * words, length};
  }

  // { size; data; seed; initial_size }, where only data is a pointer, to an array of buckets { key;
  // data; next }.
  BlockWaste check_table(std::uint32_t block) const {
    const auto held = image_.edges.of(block);
    if (held.size() != 1 || image_.fields[image_.edges.first[block]] != 1) return {};
    const auto& labels = image_.types[image_.type(block)].labels;
    if (!labels.empty() && labels[0] != "size") return {};
    const BlockShape& data = image_.shape(held[0]);
    const std::uint64_t fields = data.words - 1;
    if (data.tag != 0 || fields < kSmallestTable || !std::has_single_bit(fields)) return {};
    const auto buckets = image_.edges.of(held[0]);
    for (const std::uint32_t bucket : buckets) {
      if (!is_block(image_.shape(bucket), 3)) return {};
    }
    if (buckets.empty()) {
      return {WastePattern::kEmptyTables, data.words, data.words - kMinTable};
    }
    const std::uint64_t needed =
        std::max(kSmallestTable, std::bit_ceil(std::uint64_t{buckets.size()}) * 2);
    if (fields <= 2 * needed) return {};
    return {WastePattern::kSparseTables, data.words, fields - needed};
  }

  // Finds the block that most fields hold, if there is one, by votes (Boyer and Moore).
  BlockWaste check_array(std::uint32_t block) const {
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
  const ShortestPaths& paths_;
  std::vector<bool> is_list_;   // by type
  std::vector<bool> is_inner_;  // by block: the previous one in a list or chain leads to it
  absl::flat_hash_set<std::uint32_t> seen_;  // visited closures
};

// A buffer's bytes are in the first block that it points to, and since OCaml 5.2 one block further.
WasteFinder::BlockWaste check_buffer(const HeapImage& image, const BufferUse& buffer) {
  std::uint32_t at = buffer.block;
  for (int step = 0; step < 2 && image.shape(at).tag != kStringTag; ++step) {
    at = block_in_field(image, at, 0);
    if (at == HeapImage::kNoBlock) return {};
  }
  const BlockShape& bytes = image.shape(at);
  const std::uint64_t needed = buffer.used / kWordBytes + 2;
  if (bytes.tag != kStringTag || bytes.words <= kMinArray || needed > bytes.words / 2) return {};
  return {WastePattern::kLargeBuffers, bytes.words, bytes.words - needed};
}

// Sums by pattern and place in the source.
class WasteSums {
 public:
  explicit WasteSums(std::vector<std::uint32_t> roots) : roots_(std::move(roots)) {}

  void add(std::uint32_t block, const WasteFinder::BlockWaste& found) {
    if (found.words_to_win == 0) return;
    const auto at = static_cast<std::size_t>(found.pattern);
    WasteRow& row = rows_[at];
    row.pattern = found.pattern;
    row.blocks += found.blocks;
    row.words += found.words;
    row.words_to_win += found.words_to_win;
    places_[at][roots_[block]] += found.words_to_win;
  }
  std::vector<WasteRow> take() {
    std::vector<WasteRow> result;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].blocks == 0) continue;
      for (const auto& [root, words] : places_[i]) rows_[i].places.push_back({root, words});
      std::ranges::sort(rows_[i].places, [](const WasteRoot& a, const WasteRoot& b) {
        return std::pair(b.words_to_win, a.root_name) < std::pair(a.words_to_win, b.root_name);
      });
      result.push_back(std::move(rows_[i]));
    }
    std::ranges::stable_sort(result, std::greater(), &WasteRow::words_to_win);
    return result;
  }

 private:
  const std::vector<std::uint32_t> roots_;  // by block
  std::array<WasteRow, kWastePatterns> rows_;
  std::array<absl::flat_hash_map<std::uint32_t, std::uint64_t>, kWastePatterns> places_;
};

}  // namespace

WasteText describe(WastePattern pattern) {
  switch (pattern) {
    case WastePattern::kSparseTables:
      return {"sparse hash tables", "create them smaller; Hashtbl.reset instead of clear"};
    case WastePattern::kEmptyTables:
      return {"hash tables without an entry",
              "Hashtbl.create 1, or create it with the first entry"};
    case WastePattern::kListsOfOne:
      return {"lists of one element",
              "the element itself, or an option, where there is mostly one"};
    case WastePattern::kClosureChains:
      return {"long chains of one function's closures", "a list of their contents, run in a loop"};
    case WastePattern::kEqualStrings:
      return {"duplicate strings", "share one copy through a Hashtbl"};
    case WastePattern::kLargeBuffers:
      return {"mostly unused Buffers", "Buffer.reset instead of clear; create less"};
    case WastePattern::kFilledArrays:
      return {"arrays filled with one block", "make them as long as needed, or use a Hashtbl"};
    case WastePattern::kBoxedFloats:
      return {"boxed floats", "records of floats alone, float arrays, Float.Array"};
    case WastePattern::kBoxedIntegers:
      break;
  }
  return {"boxed integers (int32, int64, nativeint)", "int where 63 bits do; Bigarray, Bytes"};
}

std::vector<WasteRow> find_waste(const HeapImage& image, const ShortestPaths& paths) {
  WasteFinder finder(image, paths);
  WasteSums sums(paths.nearest_roots());
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    if (paths.is_reachable(block)) sums.add(block, finder.waste_of(block));
  }
  for (const std::uint32_t block : find_equal_strings(image, paths)) {
    const std::uint64_t words = image.shape(block).words;
    sums.add(block, {WastePattern::kEqualStrings, words, words});
  }
  for (const BufferUse& buffer : image.buffers) {
    if (paths.is_reachable(buffer.block)) sums.add(buffer.block, check_buffer(image, buffer));
  }
  return sums.take();
}

}  // namespace memprofd
