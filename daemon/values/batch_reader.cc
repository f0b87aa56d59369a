// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/batch_reader.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "daemon/snapshot/block_header.h"
#include "daemon/values/tag_reader.h"
#include "daemon/values/value_graph.h"

namespace memprofd {
namespace {

// True if the value consists of several words that the program may change.
bool is_compound(const Value& value) {
  if (value.graph != nullptr && value.graph->nodes.size() > 1) return true;
  if (value.kind == ValueKind::kReference) return is_compound(value.fields.front());
  return !value.fields.empty() || value.kind == ValueKind::kTable;
}

// True if a pointer leads to the value.
bool is_pointed_to(const Value& value) {
  const bool is_held = value.kind == ValueKind::kReference;
  return (is_held ? value.fields.front() : value).kind != ValueKind::kInteger;
}

// If two reads of a value of several words differ, the program changed it in between. For a value
// that is read alone, no page is older than the pointer to it. Differences in a tag do not matter:
// its counted words were all present, and the program may continue to mark.
void compare(const std::vector<ReadValue>& first, std::vector<ReadValue>& second) {
  for (std::size_t i = 0; i < second.size(); ++i) {
    second[i].is_torn |= first[i].is_torn;
    const bool is_apart = second.size() > 1 && is_pointed_to(second[i].value);
    second[i].differs =
        (is_compound(second[i].value) || is_apart) && !second[i].value.same_as(first[i].value);
  }
}

}  // namespace

std::vector<ReadValue> BatchReader::read_twice(std::span<const ValueSlot> batch,
                                               const std::vector<PublishedValue>& all,
                                               const Bounds& bounds) {
  std::vector<ReadValue> first(batch.size()), second(batch.size());
  pages_.forget();
  if (batch.size() > 1) fetch_known(batch);
  read_pass(batch, all, bounds, first);
  was_late_ = pages_.was_late();
  pages_.forget();
  std::vector<std::uint64_t> places;
  for (const ReadValue& one : first) one.read_set.add_places(places);
  if (batch.size() > 1) pages_.fetch(places);
  read_pass(batch, all, bounds, second);
  compare(first, second);
  return second;
}

std::optional<std::vector<ReadValue>> BatchReader::peek_twice(
    std::span<const ValueSlot> batch, const std::vector<PublishedValue>& all, const Bounds& bounds,
    std::span<const MemoryPiece> before, std::span<const MemoryPiece> after) {
  pages_.forget();
  std::vector<AddressRange> ranges;
  for (const ValueSlot& slot : batch) {
    if (slot.known == nullptr || !slot.known->read_set.is_known()) return std::nullopt;
    slot.known->read_set.add_ranges(ranges);
  }
  if (!pages_.peek_twice(ranges, before, after)) return std::nullopt;
  std::vector<ReadValue> first, second;
  pages_.only_note(true);
  for (const ValueSlot& slot : batch) first.push_back(read_slot(slot, all, bounds));
  pages_.show_second();
  for (const ValueSlot& slot : batch) second.push_back(read_slot(slot, all, bounds));
  pages_.only_note(false);
  if (pages_.noted() > 0 || pages_.missed()) return std::nullopt;
  compare(first, second);
  return second;
}

std::vector<bool> BatchReader::find_changed(std::span<const ValueSlot> slots) {
  constexpr std::size_t kAtOnce = 2048;
  std::vector<bool> changed(slots.size(), true);
  for (std::size_t begin = 0; begin < slots.size(); begin += kAtOnce) {
    const auto some = slots.subspan(begin, std::min(kAtOnce, slots.size() - begin));
    pages_.forget();
    std::vector<AddressRange> ranges;
    for (const ValueSlot& slot : some) {
      if (slot.known != nullptr) slot.known->read_set.add_ranges(ranges);
    }
    pages_.peek(ranges);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const KnownValue* const known = some[i].known;
      changed[begin + i] = known == nullptr || !known->read_set.is_in(pages_);
    }
  }
  pages_.forget();
  return changed;
}

void BatchReader::fetch_known(std::span<const ValueSlot> slots) const {
  std::vector<std::uint64_t> places;
  for (const ValueSlot& slot : slots) {
    if (slot.known != nullptr) slot.known->read_set.add_places(places);
  }
  pages_.fetch(places);
}

// A single value is read piece by piece, so that no page is older than the pointer to it.
void BatchReader::read_pass(std::span<const ValueSlot> batch,
                            const std::vector<PublishedValue>& all, const Bounds& bounds,
                            std::vector<ReadValue>& read) {
  constexpr int kRounds = 4;
  std::vector<std::size_t> places(batch.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  for (int round = 0; !places.empty(); ++round) {
    pages_.only_note(round < kRounds && batch.size() > 1);
    std::vector<std::size_t> later;
    for (const std::size_t i : places) {
      const std::size_t noted = pages_.noted();
      read[i] = read_slot(batch[i], all, bounds);
      if (pages_.noted() != noted) later.push_back(i);
    }
    pages_.only_note(false);
    pages_.fetch_noted();
    places = std::move(later);
  }
}

ReadValue BatchReader::read_slot(const ValueSlot& slot, const std::vector<PublishedValue>& all,
                                 const Bounds& bounds) const {
  ReadSet read_set;
  ReadValue read = read_slot(slot, all, bounds, RecordingReader(pages_, read_set));
  read.read_set = std::move(read_set);
  return read;
}

ReadValue BatchReader::read_slot(const ValueSlot& slot, const std::vector<PublishedValue>& all,
                                 const Bounds& bounds, const RecordingReader& memory) const {
  std::uint64_t word = 0;
  if (!memory.read_value(slot.address, word).ok()) {
    return {.value = {.kind = ValueKind::kUnread, .why = WhyUnread::kNotMapped}};
  }
  if (slot.module == ValueSlot::kPublished) {
    return read_published_values(all[slot.field], word, bounds, memory);
  }
  // Integers are set once, and the compiler created the values in the program's image.
  const bool is_constant = word % 2 != 0 || options_.image.contains(word);
  if (is_constant && !options_.with_constants) return {.is_constant = true};
  ValueReader reader(memory, names_, options_.with_contents);
  Value value = read_value(reader, word, bounds);
  return {.is_constant = is_constant, .is_torn = reader.is_torn(), .value = std::move(value)};
}

ReadValue BatchReader::read_published_values(const PublishedValue& one, std::uint64_t word,
                                             const Bounds& bounds,
                                             const RecordingReader& memory) const {
  if (one.kind == PublishedValue::Kind::kTag) {
    return {.value = read_tag(memory, options_.image, word, one.no_mark, bounds.blocks_of_tag)};
  }
  const bool is_string = one.type == MEMPROF_VALUE_STRING;  // published on purpose
  ValueReader reader(memory, names_, options_.with_contents || is_string);
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
