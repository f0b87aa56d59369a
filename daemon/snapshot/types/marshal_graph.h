// SPDX-License-Identifier: Apache-2.0
// A value that OCaml's Marshal has written (runtime/caml/intext.h has the format), as a graph. The
// bytes may be anybody's: the reader takes any, its memory grows with them alone, and every answer
// of a value is defined, whatever the value is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace memprofd {

class MarshalGraph;

// A value of a graph, which must outlive it. Invalid access is harmless: a missing field is the
// integer 0, the text of a value that is no string is "".
class MarshalValue {
 public:
  MarshalValue() = default;

  bool is_block() const { return (word_ & 1) == 0; }
  // 0 of a block.
  std::int64_t integer() const { return is_block() ? 0 : static_cast<std::int64_t>(word_) >> 1; }
  // -1 of an integer.
  int tag() const;
  bool is(int tag) const { return this->tag() == tag; }
  // Fields of a block of values; 0 of any other.
  std::uint64_t size() const;
  MarshalValue field(std::uint64_t index) const;
  std::string_view text() const;
  // The same for the same block of a graph, however it was reached.
  std::uint64_t identity() const { return word_; }

 private:
  friend class MarshalGraph;
  MarshalValue(const MarshalGraph* graph, std::uint64_t word) : graph_(graph), word_(word) {}

  const MarshalGraph* graph_ = nullptr;
  std::uint64_t word_ = 1;  // 2i + 1: the integer i; 2i: the block at cell i
};

inline constexpr int kMostListCells = 1 << 16;

// Elements of an OCaml list, which ends where the value is no list any more, and after
// kMostListCells: it may lead back into itself.
template <typename Use>
void for_each_in_list(MarshalValue list, Use use) {
  for (int n = 0; list.is(0) && list.size() == 2 && n < kMostListCells; ++n) {
    use(list.field(0));
    list = list.field(1);
  }
}

class MarshalGraph {
 public:
  // Bytes of the value that these begin with, by its header. kInvalidArgument: they do not begin
  // with a whole one.
  static absl::StatusOr<std::size_t> size_of(std::string_view bytes);
  // kInvalidArgument: it is damaged, or has functions in it; kResourceExhausted: it is larger than
  // kMostBytes.
  static absl::StatusOr<MarshalGraph> read(std::string_view bytes);

  static constexpr std::uint64_t kMostBytes = 128 << 20;

  MarshalValue root() const { return {this, root_}; }
  // Its memory.
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
