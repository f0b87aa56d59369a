// SPDX-License-Identifier: Apache-2.0
// Classes of blocks that tables and trees show as one row: blocks of one type of the source, if it
// is known; otherwise those of one tag and size, all strings, all arrays, the closures of one
// function, the custom blocks of one identifier.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Dense numbers of an image's classes.
class BlockClasses {
 public:
  // image must outlive this.
  explicit BlockClasses(const HeapImage& image);

  static constexpr std::uint32_t kArray = 0;

  // A block counts as an array if it has tag 0 and either more fields than a record can have, or
  // several fields that point to at least two blocks, all of one tag and size.
  std::uint32_t of(std::uint32_t block) const;
  // The same without examining the block's fields.
  std::uint32_t without_fields_of(std::uint32_t block) const {
    const std::uint32_t type = image_.type(block);
    return type == 0 ? by_shape_[image_.shape_of[block]] : of_type(type, block);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
  // "array", "block(2)", "block(2, tag 3)", "closure Server.handle", "string"; "int list",
  // "Shop.order", "closure Server.handle : int -> string".
  const std::string& text(std::uint32_t block_class) const { return texts_[block_class]; }
  // Number of fields if all blocks of the class have the same; 0: they differ.
  std::uint64_t fields(std::uint32_t block_class) const { return fields_[block_class]; }

  // Name of a record's field; empty if it has none.
  const std::string& label(std::uint32_t block_class, std::uint64_t field) const;
  // True if all its fields are alike.
  bool is_array(std::uint32_t block_class) const { return is_array_[block_class]; }

 private:
  static constexpr std::uint64_t kMaxFieldsOfRecord = 32;
  static constexpr std::uint64_t kFewestFieldsOfArray = 8;

  void add_shapes();
  void add_types();
  std::uint32_t add(std::string text, std::uint64_t fields, bool is_array);
  std::uint32_t of_type(std::uint32_t type, std::uint32_t block) const;
  bool holds_one_shape(std::uint32_t block) const;

  const HeapImage& image_;
  std::vector<std::uint32_t> by_shape_;
  std::vector<std::uint32_t> by_type_;  // by number of the image's types, but for functions
  absl::flat_hash_map<std::uint32_t, std::uint32_t> functions_;  // by shape
  absl::flat_hash_map<std::string, std::uint32_t> known_;
  std::vector<bool> is_array_;
  std::vector<std::string> texts_;
  std::vector<std::uint64_t> fields_;
  // Only classes with labels. Types of one name but with different labels have none.
  absl::flat_hash_map<std::uint32_t, std::vector<std::string>> labels_;
};

// Meaning of a tag: "block" (tags below those that the runtime reserves), "closure", "string".
// Before OCaml 5 the tags of continuations belong to constructors.
std::string tag_text(unsigned tag, bool domains);
// True if the image belongs to a runtime with domains.
bool has_domains(const HeapImage& image);

}  // namespace memprofd
