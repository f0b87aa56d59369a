// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/live_set.h"

#include <bit>
#include <utility>

namespace memprofd {
namespace {

template <typename Table, typename Id>
auto* in(Table& table, Id id) {
  const auto it = table.find(id);
  return it == table.end() ? nullptr : &it->second;
}

template <typename Table, typename Id>
std::optional<LiveSample> taken(Table& table, Id id) {
  const auto it = table.find(id);
  if (it == table.end()) return std::nullopt;
  const LiveSample sample = it->second.whole();
  table.erase(it);
  return sample;
}

// A slot with its control byte.
template <typename Table>
constexpr std::size_t slot_bytes = sizeof(typename Table::value_type) + 1;

}  // namespace

LiveSet::LiveSet(std::size_t max_samples, SharedBudget memory, std::uint64_t id_step)
    : max_samples_(max_samples),
      step_log2_(std::countr_zero(id_step)),
      latest_(id_step),
      charge_(std::move(memory)) {}

LiveSet::Inserted LiveSet::insert(SampleId id, const LiveSample& sample) {
  if (size() >= max_samples_) return find(id) ? Inserted::kAlreadyThere : Inserted::kFull;
  if (!is_next(id)) {
    return find(id) ? Inserted::kAlreadyThere : insert_into_table(id, sample);
  }
  if (young_.empty()) set_slots(kFewestSlots);
  if (young_.empty()) return insert_into_table(id, sample);
  Young& young = young_[slot_of(id)];
  if (young.id != kNobody && !move_on(young)) return Inserted::kFull;
  young_[slot_of(id)] = {id, sample};  // the table may have grown
  ++young_blocks_;
  return Inserted::kYes;
}

// True if the domain has had no such number before, so that no block is followed under it.
bool LiveSet::is_next(SampleId id) {
  std::uint64_t& latest = latest_[id.value() & (latest_.size() - 1)];
  if (id.value() <= latest || id.value() >= kNotCounted) return false;
  latest = id.value();
  return true;
}

// Numbers of one domain are adjacent, and those of different domains are far apart.
std::size_t LiveSet::slot_of(SampleId id) const {
  constexpr std::uint64_t kFar = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t domain = id.value() & (latest_.size() - 1);
  return ((id.value() >> step_log2_) + (domain * kFar >> 32)) & (young_.size() - 1);
}

const LiveSet::Young* LiveSet::at_slot(SampleId id) const {
  if (young_.empty() || id.value() >= kNotCounted) return nullptr;
  const Young& young = young_[slot_of(id)];
  return young.id == id ? &young : nullptr;
}

// Moves a young block into the table. Returns false if the table has no room.
bool LiveSet::move_on(Young& young) {
  if (insert_into_table(young.id, young.sample) != Inserted::kYes) return false;
  leave(young);
  if (++moved_on_ > young_.size()) set_slots(2 * young_.size());
  return true;
}

// Does nothing at the maximum, or without memory for more slots.
void LiveSet::set_slots(std::size_t slot_count) {
  moved_on_ = 0;
  if (slot_count > kMaxSlots || !charge_.grow((slot_count - young_.size()) * sizeof(Young))) return;
  const std::vector<Young> before = std::exchange(young_, std::vector<Young>(slot_count));
  for (const Young& young : before) {
    if (young.id != kNobody) young_[slot_of(young.id)] = young;
  }
}

LiveSet::Inserted LiveSet::insert_into_table(SampleId id, const LiveSample& sample) {
  if (SmallId::fits(id) && SmallSample::fits(sample)) {
    if (!has_room(small_)) return Inserted::kFull;
    small_.try_emplace(SmallId{id.value()}, sample);
  } else {
    if (!has_room(large_)) return Inserted::kFull;
    large_.try_emplace(id, sample);
  }
  // Removed blocks may leave so many marks that the table grows before it is full.
  if (memory_bytes() > charge_.bytes()) charge_.grow_anyway(memory_bytes() - charge_.bytes());
  return Inserted::kYes;
}

// A full table (7 of 8 slots) grows to twice its size.
template <typename Table>
bool LiveSet::has_room(const Table& table) {
  const std::size_t slots = table.capacity();
  if (table.size() < slots - slots / 8) return true;
  const std::size_t wanted = memory_bytes() + (slots + 1) * slot_bytes<Table>;
  return wanted <= charge_.bytes() || charge_.grow_or_count(wanted - charge_.bytes());
}

std::optional<LiveSample> LiveSet::find(SampleId id) const {
  const auto state_of = [](const auto* sample) {
    return sample == nullptr ? std::nullopt : std::optional<LiveSample>(sample->whole());
  };
  if (const Young* young = at_slot(id)) return young->sample;
  const auto small = SmallId::fits(id) ? state_of(in(small_, SmallId{id.value()})) : std::nullopt;
  return small ? small : state_of(in(large_, id));
}

std::optional<LiveSample> LiveSet::promote(SampleId id) {
  const auto move = [](auto* sample) -> std::optional<LiveSample> {
    if (sample == nullptr || sample->heap() == Heap::kMajor) return std::nullopt;
    const LiveSample before = sample->whole();
    sample->move_to_major();
    return before;
  };
  if (at_slot(id) != nullptr) return move(&young_[slot_of(id)].sample);
  const auto small = SmallId::fits(id) ? move(in(small_, SmallId{id.value()})) : std::nullopt;
  return small ? small : move(in(large_, id));
}

std::optional<LiveSample> LiveSet::take(SampleId id) {
  if (const Young* young = at_slot(id)) {
    const LiveSample sample = young->sample;
    leave(young_[slot_of(id)]);
    return sample;
  }
  const auto small = SmallId::fits(id) ? taken(small_, SmallId{id.value()}) : std::nullopt;
  return small ? small : taken(large_, id);
}

void LiveSet::clear() {
  SmallTable().swap(small_);
  LargeTable().swap(large_);
  std::vector<Young>().swap(young_);
  young_blocks_ = 0;
  charge_.shrink_to(0);
}

std::size_t LiveSet::memory_bytes() const {
  return small_.capacity() * slot_bytes<SmallTable> + large_.capacity() * slot_bytes<LargeTable> +
         young_.size() * sizeof(Young);
}

}  // namespace memprofd
