// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/live_set.h"

namespace memprofd {

LiveSet::Inserted LiveSet::insert(SampleId id, const LiveSample& sample) {
  if (samples_.size() >= max_samples_ || !has_room()) {
    return samples_.contains(id) ? Inserted::kAlreadyThere : Inserted::kFull;
  }
  const bool is_new = samples_.try_emplace(id, sample).second;
  // Blocks that have gone may leave so many marks in the table that it grows before it is full.
  if (memory_bytes() > charge_.bytes()) charge_.grow_anyway(memory_bytes() - charge_.bytes());
  return is_new ? Inserted::kYes : Inserted::kAlreadyThere;
}

// A full table (7 of 8 slots) becomes one of twice its size.
bool LiveSet::has_room() {
  const std::size_t slots = samples_.capacity();
  if (samples_.size() < slots - slots / 8) return true;
  const std::size_t wanted = (2 * slots + 1) * kSlotBytes;
  return wanted <= charge_.bytes() || charge_.grow_or_count(wanted - charge_.bytes());
}

LiveSample* LiveSet::find(SampleId id) {
  const auto it = samples_.find(id);
  return it == samples_.end() ? nullptr : &it->second;
}

const LiveSample* LiveSet::find(SampleId id) const {
  const auto it = samples_.find(id);
  return it == samples_.end() ? nullptr : &it->second;
}

std::optional<LiveSample> LiveSet::take(SampleId id) {
  const auto it = samples_.find(id);
  if (it == samples_.end()) return std::nullopt;
  const LiveSample sample = it->second;
  samples_.erase(it);
  return sample;
}

void LiveSet::clear() {
  Table().swap(samples_);
  charge_.shrink_to(0);
}

std::size_t LiveSet::memory_bytes() const { return samples_.capacity() * kSlotBytes; }

}  // namespace memprofd
