// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/native_residency.h"

#include <utility>

namespace memprofd {
namespace {

constexpr float kNotScanned = -1;

std::optional<float> known(float share) {
  if (share < 0) return std::nullopt;
  return share;
}

}  // namespace

void NativeResidency::add(const NativeBlock& block) {
  if (blocks_.size() >= kMaxBlocks) return;
  blocks_[block.number] = {block.address, block.bytes, kNotScanned};
}

std::optional<float> NativeResidency::take(std::uint64_t number) {
  const auto found = blocks_.find(number);
  if (found == blocks_.end()) return std::nullopt;
  const float share = found->second.share;
  blocks_.erase(found);
  return known(share);
}

bool NativeResidency::clear() {
  blocks_.clear();
  gone_.clear();
  missed_.clear();
  return std::exchange(noted_, false);
}

std::vector<NativeBlock> NativeResidency::all() const {
  std::vector<NativeBlock> all;
  all.reserve(blocks_.size());
  for (const auto& [number, block] : blocks_) all.push_back({number, block.address, block.bytes});
  return all;
}

std::optional<float> NativeResidency::note(std::uint64_t number, float share) {
  const auto found = blocks_.find(number);
  if (found == blocks_.end()) return std::nullopt;
  noted_ = true;
  return known(std::exchange(found->second.share, share));
}

std::vector<std::uint64_t> NativeResidency::missed(const ResidencyScan& scan) {
  absl::flat_hash_set<std::uint64_t> gone;
  std::vector<std::uint64_t> missed;
  for (const BlockResidency& found : scan) {
    if (!found.gone || !blocks_.contains(found.number)) continue;
    if (!gone_.contains(found.number)) {
      gone.insert(found.number);
      continue;
    }
    missed.push_back(found.number);
    if (missed_.size() < kMaxBlocks) missed_.insert(found.number);
  }
  gone_ = std::move(gone);
  return missed;
}

}  // namespace memprofd
