// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kEmpty = 1;  // [], None, Empty: the integer 0
// No block has more words, or is in the kernel's half of the address space.
constexpr std::uint64_t kMaxFieldsOfBlock = 1ull << 44;

constexpr bool is_integer(std::uint64_t word) { return (word & 1) != 0; }
constexpr std::int64_t integer_of(std::uint64_t word) {
  return static_cast<std::int64_t>(word) >> 1;
}
void count_chain(std::uint64_t bindings, std::vector<std::uint64_t>& chains) {
  const std::uint64_t place = std::min<std::uint64_t>(bindings, Value::kCountedChains);
  if (chains.size() <= place) chains.resize(place + 1);
  ++chains[place];
}
Value unread(WhyUnread why) { return {.kind = ValueKind::kUnread, .why = why}; }

}  // namespace

Value ValueReader::read(std::uint64_t word) {
  blocks_left_ = kMaxBlocks;
  is_torn_ = false;
  return read(word, kMaxDepth);
}

Value ValueReader::read(std::uint64_t word, int depth) {
  if (is_integer(word)) return {.kind = ValueKind::kInteger, .integer = integer_of(word)};
  if (depth == 0) return unread(WhyUnread::kDeep);
  const auto block = block_at(word);
  if (!block) return unread(blocks_left_ == 0 ? WhyUnread::kDeep : WhyUnread::kNotMapped);
  return read_block(*block, depth);
}

Value ValueReader::read_block(const Block& block, int depth) {
  if (block.tag == kForwardTag) {  // a lazy value that was forced
    const auto inner = field(block, 0);
    return inner ? read(*inner, depth - 1) : unread(WhyUnread::kNotMapped);
  }
  if (block.tag >= kForcingTag) return read_scalars(block);
  if (block.tag == 0) {
    if (auto collection = as_collection(block, depth)) return *std::move(collection);
  }
  Value value{
      .kind = block.tag == 0 && block.fields == 1 ? ValueKind::kReference : ValueKind::kBlock,
      .size = block.fields,
      .tag = block.tag};
  // Restores the limit that the unsuccessful search for a collection has used up.
  if (depth == kMaxDepth) blocks_left_ = kMaxBlocks;
  add_fields(block, depth, value);
  return value;
}

Value ValueReader::read_alone(std::uint64_t word) {
  if (is_integer(word)) return {.kind = ValueKind::kInteger, .integer = integer_of(word)};
  blocks_left_ = 1;
  return unread(block_at(word) ? WhyUnread::kDeep : WhyUnread::kNotMapped);
}

std::optional<ValueReader::Alone> ValueReader::block_alone(std::uint64_t word, std::size_t fields) {
  blocks_left_ = 1;
  const auto block = is_integer(word) ? std::nullopt : block_at(word);
  if (!block) return std::nullopt;
  const bool is_forced = block->tag == kForwardTag;
  if (block->tag >= kForcingTag && !is_forced) return Alone{read_scalars(*block), {}};
  const bool is_one = block->fields == 1 && (block->tag == 0 || is_forced);
  Alone alone{.value = {.kind = is_one ? ValueKind::kReference : ValueKind::kBlock,
                        .size = block->fields,
                        .tag = block->tag,
                        .is_cut = block->fields > fields}};
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(block->fields, fields); ++i) {
    alone.fields.push_back(field(*block, i).value_or(kEmpty));
  }
  return alone;
}

// Reads blocks whose tag determines what they are.
Value ValueReader::read_scalars(const Block& block) const {
  Value value{.size = block.fields, .tag = block.tag};
  switch (block.tag) {
    case kStringTag:
      value.kind = ValueKind::kString;
      read_text(block, value);
      break;
    case kFloatTag:
      value.kind = ValueKind::kFloat;
      value.number = std::bit_cast<double>(field(block, 0).value_or(0));
      break;
    case kFloatArrayTag:
      value.kind = ValueKind::kFloatArray;
      break;
    case kCustomTag:
      value.kind = ValueKind::kCustom;
      read_custom(block, value);
      break;
    case kClosureTag:
    case kInfixTag:
      value.kind = ValueKind::kFunction;
      value.text = function_name(block);
      break;
    case kAbstractTag:
      value.kind = ValueKind::kAbstract;
      break;
    case kObjectTag:
      value.kind = ValueKind::kObject;
      break;
    default:  // kForcingTag to kLazyTag, and parts of continuations
      value.kind = block.tag == kLazyTag || block.tag == kForcingTag ? ValueKind::kLazy
                                                                     : ValueKind::kAbstract;
  }
  return value;
}

// A function of several arguments begins with a function of the runtime that takes them one by one;
// its own code is in the third word.
std::string ValueReader::function_name(const Block& closure) const {
  const auto code = field(closure, 0);
  std::string name = code ? functions_(*code) : "";
  if (name.starts_with("caml_curry") || name.starts_with("caml_tuplify")) {
    if (const auto own = field(closure, 2)) name = functions_(*own);
  }
  return name;
}

// The last byte is the number of padding bytes before it.
void ValueReader::read_text(const Block& block, Value& value) const {
  if (block.fields == 0) return;
  const std::uint64_t last = field(block, block.fields - 1).value_or(0) >> 56;
  const std::uint64_t bytes = block.fields * kWordBytes - 1;
  value.size = last < kWordBytes && last <= bytes ? bytes - last : bytes;
  if (!with_contents_) return;
  std::string text(std::min<std::uint64_t>(value.size, kMaxText), '\0');
  if (!memory_.read(block.address, std::as_writable_bytes(std::span(text))).ok()) return;
  value.text = std::move(text);
  value.is_cut = value.size > kMaxText;
}

// The first word of a custom block points to its operations, which begin with their name.
void ValueReader::read_custom(const Block& block, Value& value) const {
  std::uint64_t name = 0;
  std::array<char, 32> text{};
  const auto operations = field(block, 0);
  if (!operations || !memory_.read_value(*operations, name).ok() ||
      !memory_.read(name, std::as_writable_bytes(std::span(text))).ok()) {
    return;
  }
  value.text.assign(text.data(), ::strnlen(text.data(), text.size()));
  const auto word = field(block, 1);
  if (!word) return;
  if (value.text == "_i") value.integer = static_cast<std::int32_t>(*word);
  if (value.text == "_j" || value.text == "_n") value.integer = static_cast<std::int64_t>(*word);
}

void ValueReader::add_fields(const Block& block, int depth, Value& value) {
  const std::uint64_t shown = std::min<std::uint64_t>(block.fields, kMaxFields);
  for (std::uint64_t i = 0; i < shown; ++i) {
    const auto word = field(block, i);
    value.fields.push_back(word ? read(*word, depth - 1) : unread(WhyUnread::kNotMapped));
  }
  value.is_cut = block.fields > shown;
}

// Follows cells that hold an element and the next cell.
void ValueReader::add_elements(std::uint64_t cell, int depth, Value& value) {
  while (value.fields.size() < kMaxFields && !is_integer(cell)) {
    const auto block = block_at(cell, 0, 2);
    const auto element = block ? field(*block, 0) : std::nullopt;
    if (!element) break;
    value.fields.push_back(read(*element, depth - 1));
    cell = field(*block, 1).value_or(kEmpty);
  }
  value.is_cut = value.size > value.fields.size();
}

// ------------------------------------------------------------ collections

std::optional<Value> ValueReader::as_collection(const Block& block, int depth) {
  std::optional<Value> found;
  if (block.fields == 2) found = as_list(block, depth);
  if (block.fields == 3) found = as_queue(block, depth);
  if (block.fields == 4) found = as_table(block);
  if (!found && (block.fields == 4 || block.fields == 5)) found = as_tree(block);
  return found;
}

std::optional<Value> ValueReader::as_list(const Block& block, int depth) {
  const Cells cells = follow(block.address, 2);
  if (cells.count < 2 || (!cells.ends && blocks_left_ > 0)) return std::nullopt;
  Value list{.kind = ValueKind::kList, .size = cells.count, .is_longer = !cells.ends};
  if (!cells.ends) blocks_left_ = kMaxBlocks;
  add_elements(block.address, depth, list);
  return list;
}

// {length; first; last}, with cells like those of lists (stdlib/queue.ml).
std::optional<Value> ValueReader::as_queue(const Block& block, int depth) {
  const auto length = field(block, 0);
  const auto first = field(block, 1);
  const auto last = field(block, 2);
  if (!length || !first || !last || !is_integer(*length) || integer_of(*length) < 1) {
    return std::nullopt;
  }
  const Cells cells = follow(*first, 2);
  if (!cells.ends) return std::nullopt;
  if (cells.last != *last || cells.count != static_cast<std::uint64_t>(integer_of(*length))) {
    is_torn_ |= !is_integer(*last) && block_at(*last, 0, 2).has_value();
    return std::nullopt;
  }
  Value queue{.kind = ValueKind::kQueue, .size = cells.count};
  add_elements(*first, depth, queue);
  return queue;
}

// {size; data; seed; initial_size}; the number of buckets is a power of two (stdlib/hashtbl.ml).
std::optional<Value> ValueReader::as_table(const Block& block) {
  const auto size = field(block, 0);
  const auto data = field(block, 1);
  const auto seed = field(block, 2);
  const auto initial = field(block, 3);
  if (!size || !data || !seed || !initial || !is_integer(*size) || integer_of(*size) < 0 ||
      is_integer(*data) || !is_integer(*seed) || !is_integer(*initial)) {
    return std::nullopt;
  }
  const auto buckets = block_at(*data);
  if (!buckets || buckets->tag != 0 || !std::has_single_bit(buckets->fields)) return std::nullopt;
  Value table{.kind = ValueKind::kTable,
              .size = static_cast<std::uint64_t>(integer_of(*size)),
              .buckets = buckets->fields};
  if (!count_chains(*buckets, table)) return std::nullopt;
  return table;
}

// In a table that is too large, only the first buckets have to be chains.
bool ValueReader::count_chains(const Block& buckets, Value& table) {
  constexpr std::uint64_t kBucketsTried = 64;
  table.chains_counted = table.size + buckets.fields <= blocks_left_;
  const std::uint64_t counted =
      table.chains_counted ? buckets.fields : std::min(buckets.fields, kBucketsTried);
  std::uint64_t bindings = 0;
  for (std::uint64_t i = 0; i < counted; ++i) {
    const auto bucket = field(buckets, i);
    const Cells chain = follow(bucket.value_or(0), 3);
    if (!chain.ends) return false;
    bindings += chain.count;
    count_chain(chain.count, table.chains);
    table.empty_buckets += chain.count == 0;
    table.longest_chain = std::max(table.longest_chain, chain.count);
  }
  const bool fits = !table.chains_counted || bindings == table.size;
  is_torn_ |= !fits;
  return fits;
}

ValueReader::Cells ValueReader::follow(std::uint64_t cell, std::uint64_t fields) {
  Cells cells;
  for (; cell != kEmpty; ++cells.count) {
    const auto found = is_integer(cell) ? std::nullopt : block_at(cell, 0, fields);
    const auto next = found ? field(*found, fields - 1) : std::nullopt;
    if (!next) return cells;
    cells.last = cell;
    cell = *next;
  }
  cells.ends = true;
  return cells;
}

// A balanced tree of nodes {l; v; d; r; h} in Map, and {l; v; r; h} in Set (stdlib/map.ml, set.ml).
std::optional<Value> ValueReader::as_tree(const Block& block) {
  constexpr int kHighest = 64;
  std::uint64_t size = 0;
  if (!tree_height(block.address, block.fields, kHighest, size) || size < 2) return std::nullopt;
  return Value{.kind = ValueKind::kTree, .size = size};
}

std::optional<std::uint64_t> ValueReader::tree_height(std::uint64_t node, std::uint64_t fields,
                                                      int depth, std::uint64_t& size) {
  if (node == kEmpty) return 0;
  const auto block = is_integer(node) || depth == 0 ? std::nullopt : block_at(node, 0, fields);
  if (!block) return std::nullopt;
  const auto stored_height = field(*block, fields - 1);
  if (!stored_height || !is_integer(*stored_height)) return std::nullopt;
  const auto left = tree_height(field(*block, 0).value_or(0), fields, depth - 1, size);
  if (!left) return std::nullopt;
  const auto right = tree_height(field(*block, fields - 2).value_or(0), fields, depth - 1, size);
  if (!right) return std::nullopt;
  const std::uint64_t height = std::max(*left, *right) + 1;
  if (integer_of(*stored_height) != static_cast<std::int64_t>(height)) return std::nullopt;
  ++size;
  return height;
}

// ------------------------------------------------------------ memory

std::optional<ValueReader::Block> ValueReader::block_at(std::uint64_t address) {
  std::uint64_t header = 0;
  if (blocks_left_ == 0 || address % kWordBytes != 0 || address < kWordBytes ||
      address >= kEndOfMemory || !read_header(address - kWordBytes, header).ok() ||
      fields_of(header) > kMaxFieldsOfBlock) {
    return std::nullopt;
  }
  --blocks_left_;
  return Block{address, fields_of(header), tag_of(header)};
}

std::optional<ValueReader::Block> ValueReader::block_at(std::uint64_t address, std::uint32_t tag,
                                                        std::uint64_t fields) {
  auto block = block_at(address);
  return block && block->tag == tag && block->fields == fields ? block : std::nullopt;
}

std::optional<std::uint64_t> ValueReader::field(const Block& block, std::uint64_t index) const {
  std::uint64_t word = 0;
  if (index >= block.fields || !memory_.read_value(block.address + index * kWordBytes, word).ok()) {
    return std::nullopt;
  }
  return word;
}

}  // namespace memprofd
