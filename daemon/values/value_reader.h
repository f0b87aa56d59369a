// SPDX-License-Identifier: Apache-2.0
// Decodes words of an OCaml program, from its memory at one moment (heap_clock.h). Accepts any
// contents: blocks, pages and depth are bounded, and data counts as a table or a tree only if all
// of it is consistent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/values/read_set.h"
#include "daemon/values/value.h"

namespace memprofd {

// Name of the function at an address of its code.
using FunctionNames = std::function<std::string(std::uint64_t code)>;

class ValueReader {
 public:
  // Maximum number of blocks read for one value.
  static constexpr std::size_t kMaxBlocks = 20'000;
  static constexpr std::size_t kMaxFields = 8;  // shown
  static constexpr int kMaxDepth = 3;           // of fields within fields
  static constexpr std::size_t kMaxText = 256;  // bytes of a string

  // with_contents: those of strings, which may be secret.
  ValueReader(const MemoryReader& memory, const FunctionNames& functions, bool with_contents)
      : memory_(memory), functions_(functions), with_contents_(with_contents) {}
  // Records the words of which values are made.
  ValueReader(const RecordingReader& memory, const FunctionNames& functions, bool with_contents)
      : memory_(memory), recorder_(&memory), functions_(functions), with_contents_(with_contents) {}

  Value read(std::uint64_t word);
  // Reads a single word. For a block, reads only whether it exists.
  Value read_alone(std::uint64_t word);
  struct Alone {
    Value value;                        // without its fields
    std::vector<std::uint64_t> fields;  // the first ones, if it has any
  };
  // Returns nullopt if there is no block.
  std::optional<Alone> block_alone(std::uint64_t word, std::size_t fields);
  // True if the last data was consistent except for what a concurrent change explains: a queue or a
  // table whose count is not that of its cells.
  bool is_torn() const { return is_torn_; }

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t fields = 0;
    std::uint32_t tag = 0;
  };

  Value read(std::uint64_t word, int depth);
  Value read_block(const Block& block, int depth);
  Value read_scalars(const Block& block) const;
  std::string function_name(const Block& closure) const;
  void read_text(const Block& block, Value& value) const;
  void read_custom(const Block& block, Value& value) const;
  void add_fields(const Block& block, int depth, Value& value);
  void add_elements(std::uint64_t cell, int depth, Value& value);
  std::optional<Value> as_collection(const Block& block, int depth);
  std::optional<Value> as_list(const Block& block, int depth);
  std::optional<Value> as_queue(const Block& block, int depth);
  std::optional<Value> as_table(const Block& block);
  bool count_chains(const Block& buckets, Value& table);
  // Cells with this number of fields, the last of which is the next cell or an end.
  struct Cells {
    std::uint64_t count = 0;
    std::uint64_t last = 0;
    bool ends = false;  // all of them are cells
  };
  Cells follow(std::uint64_t cell, std::uint64_t fields);
  std::optional<Value> as_tree(const Block& block);
  // Height of a tree; adds the number of its nodes to size. nullopt if the nodes are inconsistent.
  std::optional<std::uint64_t> tree_height(std::uint64_t node, std::uint64_t fields, int depth,
                                           std::uint64_t& size);

  // Returns nullopt if there is no block, or too many have been read.
  std::optional<Block> block_at(std::uint64_t address);
  std::optional<Block> block_at(std::uint64_t address, std::uint32_t tag, std::uint64_t fields);
  std::optional<std::uint64_t> field(const Block& block, std::uint64_t index) const;

  absl::Status read_header(std::uint64_t address, std::uint64_t& header) const {
    return recorder_ != nullptr ? recorder_->read_header(address, header)
                                : memory_.read_value(address, header);
  }

  const MemoryReader& memory_;
  const RecordingReader* const recorder_ = nullptr;
  const FunctionNames& functions_;
  const bool with_contents_;
  std::size_t blocks_left_ = 0;
  bool is_torn_ = false;
};

}  // namespace memprofd
