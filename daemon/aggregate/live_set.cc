// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/live_set.h"

namespace memprofd {

LiveSet::Inserted LiveSet::insert(SampleId id, const LiveSample& sample) {
  if (samples_.size() >= max_samples_) {
    return samples_.contains(id) ? Inserted::kAlreadyThere : Inserted::kFull;
  }
  return samples_.try_emplace(id, sample).second ? Inserted::kYes : Inserted::kAlreadyThere;
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

void LiveSet::clear() { Table().swap(samples_); }

std::size_t LiveSet::memory_bytes() const {
  return samples_.capacity() * (sizeof(Table::value_type) + 1);
}

}  // namespace memprofd
