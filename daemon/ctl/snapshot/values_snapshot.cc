// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/values_snapshot.h"

#include <cstdint>
#include <utility>

#include "daemon/snapshot/answers/collections.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

bool is_node(const pb::Value& value, std::uint64_t fields) {
  return value.kind() == pb::VALUE_KIND_BLOCK && value.tag() == 0 && value.size() == fields;
}

bool may_be_node(const pb::Value& value, std::uint64_t fields) {
  const bool is_deep = value.kind() == pb::VALUE_KIND_UNREAD && value.why_unread().empty();
  return is_deep || is_node(value, fields);
}

// A Map or Set that is too large is shown as its first node: {left; key; data; right; height}, or
// without data. Trees of 20,000 nodes or more are at least this high.
bool may_be_tree(const pb::Value& value) {
  constexpr std::int64_t kLowest = 14, kHighest = 64;
  const auto fields = static_cast<std::uint64_t>(value.fields_size());
  if ((fields != 4 && fields != 5) || !is_node(value, fields)) return false;
  const pb::Value& height = value.fields(value.fields_size() - 1);
  return may_be_node(value.fields(0), fields) &&
         may_be_node(value.fields(value.fields_size() - 2), fields) &&
         height.kind() == pb::VALUE_KIND_INTEGER && height.integer() >= kLowest &&
         height.integer() <= kHighest;
}

bool is_too_large(const pb::Value& value) {
  if (value.kind() == pb::VALUE_KIND_UNREAD) return !value.why_unread().empty();
  if (value.kind() == pb::VALUE_KIND_TABLE) return !value.chains_counted();
  return value.size_is_least() || may_be_tree(value);
}

// Only fields of these kinds are fields of the value's block; those of lists are elements.
bool has_own_fields(const pb::Value& value) {
  return value.kind() == pb::VALUE_KIND_REFERENCE || value.kind() == pb::VALUE_KIND_BLOCK;
}

bool holds_too_large(const pb::Value& value) {
  if (is_too_large(value)) return true;
  if (!has_own_fields(value)) return false;
  for (const pb::Value& field : value.fields()) {
    if (holds_too_large(field)) return true;
  }
  return false;
}

pb::ValueKind kind_of(Collection::Kind kind) {
  switch (kind) {
    case Collection::Kind::kList:
      return pb::VALUE_KIND_LIST;
    case Collection::Kind::kTable:
      return pb::VALUE_KIND_TABLE;
    case Collection::Kind::kTree:
      return pb::VALUE_KIND_TREE;
  }
  return pb::VALUE_KIND_UNSPECIFIED;
}

// True if it may be the same value that has only grown or shrunk.
bool may_be(const pb::Value& value, pb::ValueKind kind) {
  if (value.kind() == pb::VALUE_KIND_UNREAD) return true;
  return value.kind() == kind || (may_be_tree(value) && kind == pb::VALUE_KIND_TREE);
}

bool complete(const HeapImage& image, std::uint32_t block, pb::Value& value) {
  const auto found = find_collection(image, block);
  if (!found || !may_be(value, kind_of(found->kind))) return false;
  if (value.kind() != pb::VALUE_KIND_LIST) value.clear_fields();
  value.set_kind(kind_of(found->kind));
  value.clear_tag();
  value.clear_why_unread();
  value.set_size(found->size);
  value.set_size_is_least(false);
  value.set_is_cut(found->size > static_cast<std::uint64_t>(value.fields_size()));
  value.set_buckets(found->buckets);
  value.set_chains_counted(found->kind == Collection::Kind::kTable);
  value.set_empty_buckets(found->empty_buckets);
  value.set_longest_chain(found->longest_chain);
  value.mutable_chains()->Assign(found->chains.begin(), found->chains.end());
  value.set_bytes(reachable_words(image, block) * kWordBytes);
  value.set_is_of_snapshot(true);
  return true;
}

// A value that could not be read at all is usually in a reference.
bool complete_reference(const HeapImage& image, std::uint32_t block, pb::Value& value) {
  const BlockShape& shape = image.shape(block);
  const std::uint32_t inner = block_in_field(image, block, 0);
  if (value.kind() != pb::VALUE_KIND_UNREAD || shape.tag != 0 || shape.words != 2 ||
      inner == HeapImage::kNoBlock) {
    return false;
  }
  pb::Value held = value;
  if (!complete(image, inner, held)) return false;
  value.clear_why_unread();
  value.set_kind(pb::VALUE_KIND_REFERENCE);
  value.set_size(1);
  *value.add_fields() = std::move(held);
  return true;
}

int complete_within(const HeapImage& image, std::uint32_t block, pb::Value& value) {
  if (block == HeapImage::kNoBlock) return 0;
  if (is_too_large(value) &&
      (complete(image, block, value) || complete_reference(image, block, value))) {
    return 1;
  }
  int count = 0;
  for (int i = 0; has_own_fields(value) && i < value.fields_size(); ++i) {
    const std::uint32_t inner = block_in_field(image, block, static_cast<std::uint32_t>(i));
    count += complete_within(image, inner, *value.mutable_fields(i));
  }
  return count;
}

}  // namespace

bool has_too_large(const pb::ListValuesResponse& values) {
  for (const pb::NamedValue& named : values.values()) {
    if (holds_too_large(named.value())) return true;
  }
  return false;
}

int complete_values(const HeapImage& image, pb::ListValuesResponse& values) {
  int count = 0;
  for (pb::NamedValue& named : *values.mutable_values()) {
    const std::uint32_t block = block_of_global(image, named.module(), named.field());
    count += complete_within(image, block, *named.mutable_value());
  }
  return count;
}

}  // namespace memprofd::ctl
