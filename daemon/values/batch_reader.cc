// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/batch_reader.h"

#include <memory>
#include <utility>

#include "daemon/snapshot/block_header.h"
#include "daemon/values/tag_reader.h"
#include "daemon/values/value_graph.h"

namespace memprofd {
namespace {

// Whether it is of more words than one that the program may change.
bool is_compound(const Value& value) {
  if (value.graph != nullptr && value.graph->nodes.size() > 1) return true;
  if (value.kind == ValueKind::kReference) return is_compound(value.fields.front());
  return !value.fields.empty() || value.kind == ValueKind::kTable;
}

// Whether a pointer leads to it.
bool is_pointed_to(const Value& value) {
  const bool is_held = value.kind == ValueKind::kReference;
  return (is_held ? value.fields.front() : value).kind != ValueKind::kInteger;
}

}  // namespace

// What is of several words and differs has been changed in between. Of a value that is read alone
// no page was read before its pointer. A tag counts words, each of which was there: the program may
// go on marking.
std::vector<ReadValue> BatchReader::read_twice(std::span<const ValueSlot> batch,
                                               const std::vector<Reported>& all,
                                               const Bounds& bounds) {
  pages_.forget();
  fetch(batch);
  std::vector<ReadValue> first;
  first.reserve(batch.size());
  for (const ValueSlot& slot : batch) first.push_back(read_slot(slot, all, bounds));
  was_late_ = pages_.was_late();
  pages_.forget();
  fetch(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ReadValue second = read_slot(batch[i], all, bounds);
    second.is_torn |= first[i].is_torn;
    const bool is_apart = batch.size() > 1 && is_pointed_to(second.value);
    second.differs =
        (is_compound(second.value) || is_apart) && !second.value.same_as(first[i].value);
    first[i] = std::move(second);
  }
  return first;
}

// The pages that those will look at first, in few steps: of the words, then of the blocks that they
// lead to.
void BatchReader::fetch(std::span<const ValueSlot> batch) const {
  if (batch.size() < 2) return;
  std::vector<std::uint64_t> addresses;
  for (const ValueSlot& slot : batch) addresses.push_back(slot.address);
  pages_.fetch(addresses);
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t address : addresses) {
    std::uint64_t word = 0;
    const bool is_block = pages_.read_value(address, word).ok() && word % kWordBytes == 0 &&
                          word >= kWordBytes && word < kEndOfMemory;
    const bool is_wanted = options_.with_constants || !options_.image.contains(word);
    if (is_block && is_wanted) blocks.insert(blocks.end(), {word - kWordBytes, word});
  }
  pages_.fetch(std::move(blocks));
}

ReadValue BatchReader::read_slot(const ValueSlot& slot, const std::vector<Reported>& all,
                                 const Bounds& bounds) const {
  std::uint64_t word = 0;
  if (!pages_.read_value(slot.address, word).ok()) {
    return {.value = {.kind = ValueKind::kUnread, .why = WhyUnread::kNotMapped}};
  }
  if (slot.module == ValueSlot::kReported) return read_reported(all[slot.field], word, bounds);
  // Integers are set once, and what lies in the program's image is made by the compiler.
  const bool is_constant = word % 2 != 0 || options_.image.contains(word);
  if (is_constant && !options_.with_constants) return {.is_constant = true};
  ValueReader reader(pages_, names_, options_.with_contents);
  Value value = read_value(reader, word, bounds);
  return {.is_constant = is_constant, .is_torn = reader.is_torn(), .value = std::move(value)};
}

ReadValue BatchReader::read_reported(const Reported& one, std::uint64_t word,
                                     const Bounds& bounds) const {
  if (one.kind == Reported::Kind::kTag) {
    return {.value = read_tag(pages_, options_.image, word, one.no_mark, bounds.blocks_of_tag)};
  }
  const bool is_string = one.type == MEMPROF_VALUE_STRING;  // published on purpose
  ValueReader reader(pages_, names_, options_.with_contents || is_string);
  Value value = read_value(reader, word, bounds);
  return {.is_torn = reader.is_torn(), .value = std::move(value)};
}

Value BatchReader::read_value(ValueReader& reader, std::uint64_t word, const Bounds& bounds) const {
  Value value = reader.read(word);
  if (options_.with_graphs) {
    value.graph = std::make_shared<const ValueGraph>(read_graph(reader, word, bounds.graph_nodes));
  }
  return value;
}

}  // namespace memprofd
