// SPDX-License-Identifier: Apache-2.0
// A value written by OCaml's Marshal (format: runtime/caml/intext.h), as a graph. The bytes may
// come from anyone: the reader accepts any input, uses memory in proportion to it, and every access
// to a value is defined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace memprofd {

class MarshalGraph;

// A value of a graph, which must outlive it. Invalid access is harmless: a missing field is the
// integer 0, the text of a non-string is "".
class MarshalValue {
 public:
  MarshalValue() = default;

  bool is_block() const { return (word_ & 1) == 0; }
  // Returns 0 for a block.
  std::int64_t integer() const { return is_block() ? 0 : static_cast<std::int64_t>(word_) >> 1; }
  // Returns -1 for an integer.
  int tag() const;
  bool is(int tag) const { return this->tag() == tag; }
  // Number of fields of a block of values; otherwise 0.
  std::uint64_t size() const;
  MarshalValue field(std::uint64_t index) const;
  std::string_view text() const;
  // Equal for equal blocks of a graph, however they were reached.
  std::uint64_t identity() const { return word_; }

 private:
  friend class MarshalGraph;
  MarshalValue(const MarshalGraph* graph, std::uint64_t word) : graph_(graph), word_(word) {}

  const MarshalGraph* graph_ = nullptr;
  std::uint64_t word_ = 1;  // 2i + 1: the integer i; 2i: the block at cell i
};

inline constexpr int kMaxListCells = 1 << 16;

// Visits the elements of an OCaml list. Stops at a value that is not a list, and after
// kMaxListCells, because the list may be cyclic.
template <typename Use>
void for_each_in_list(MarshalValue list, Use use) {
  for (int n = 0; list.is(0) && list.size() == 2 && n < kMaxListCells; ++n) {
    use(list.field(0));
    list = list.field(1);
  }
}

class MarshalGraph {
 public:
  // Size of the value at the start of the bytes, according to its header. kInvalidArgument: they do
  // not begin with a complete value.
  static absl::StatusOr<std::size_t> size_of(std::string_view bytes);
  // kInvalidArgument: it is damaged, or contains functions; kResourceExhausted: it exceeds
  // kMaxBytes.
  static absl::StatusOr<MarshalGraph> read(std::string_view bytes);

  static constexpr std::uint64_t kMaxBytes = 128 << 20;

  MarshalValue root() const { return {this, root_}; }
  // Memory of the graph.
  std::uint64_t bytes() const { return cells_.size() * sizeof(std::uint64_t); }

 private:
  friend class MarshalValue;
  friend class MarshalReader;
  // A block is a header (size, tag) and its fields, or its characters and zeros behind them.
  static constexpr std::uint64_t header(std::uint64_t size, unsigned tag) {
    return size << 8 | tag;
  }

  std::vector<std::uint64_t> cells_{header(0, 0)};
  std::uint64_t root_ = 1;
};

}  // namespace memprofd
