// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/block_index.h"

#include <algorithm>
#include <bit>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBits = 64;
// Largest gap within a region: a gap costs bits, and another region costs time in each look-up.
constexpr std::uint64_t kGapBytes = 4096;
// Number of words that are searched backwards for a header: the functions of one closure.
constexpr std::uint64_t kMaxWordsBefore = 4096;

}  // namespace

BlockIndex::BlockIndex(const HeapMap& map) {
  std::uint64_t bit = 0;
  for (const HeapRegion& region : map.regions) {
    if (runs_.empty() || region.begin - runs_.back().end >= kGapBytes) {
      runs_.push_back({.begin = region.begin, .end = region.begin, .first_bit = bit});
    }
    RegionRun& run = runs_.back();
    run.end = region.end();
    bit = run.first_bit + (run.end - run.begin) / kWordBytes;
  }
  bits_.resize(bit / kBits + 1);
}

const BlockIndex::RegionRun* BlockIndex::region_at(std::uint64_t address) const {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), address,
                       [](std::uint64_t place, const RegionRun& run) { return place < run.begin; });
  if (after == runs_.begin() || address >= (after - 1)->end) return nullptr;
  return &*(after - 1);
}

void BlockIndex::add(std::uint64_t address) { add_to(*region_at(address), address); }

// Words farther into a block than find_before() searches belong to no range.
void BlockIndex::append(std::uint64_t address, std::uint64_t words) {
  if (runs_.empty() || address >= runs_.back().end + kGapBytes) {
    runs_.push_back({.begin = address, .end = address, .first_bit = bits_.size() * kBits});
  }
  RegionRun& run = runs_.back();
  run.end = address + std::min(words, kMaxWordsBefore) * kWordBytes;
  bits_.resize((run.first_bit + (run.end - run.begin) / kWordBytes) / kBits + 1);
  add_to(run, address);
}

void BlockIndex::add_to(const RegionRun& run, std::uint64_t address) {
  const std::uint64_t bit = run.first_bit + (address - run.begin) / kWordBytes;
  bits_[bit / kBits] |= std::uint64_t{1} << bit % kBits;
}

bool BlockIndex::number_blocks() {
  std::uint64_t blocks = 0;
  counts_.resize(bits_.size());
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    counts_[i] = static_cast<std::uint32_t>(blocks);
    blocks += static_cast<std::uint64_t>(std::popcount(bits_[i]));
    if (blocks >= kNone) return false;
  }
  size_ = static_cast<std::uint32_t>(blocks);
  return true;
}

std::uint32_t BlockIndex::count_before(std::uint64_t bit) const {
  const std::uint64_t before = bits_[bit / kBits] & ((std::uint64_t{1} << bit % kBits) - 1);
  return counts_[bit / kBits] + static_cast<std::uint32_t>(std::popcount(before));
}

std::uint32_t BlockIndex::find(std::uint64_t value) const {
  const std::uint64_t address = value - kWordBytes;
  if (value % kWordBytes != 0) return kNone;
  const RegionRun* run = region_at(address);
  if (run == nullptr) return kNone;
  const std::uint64_t bit = run->first_bit + (address - run->begin) / kWordBytes;
  return (bits_[bit / kBits] >> bit % kBits & 1) != 0 ? count_before(bit) : kNone;
}

std::uint32_t BlockIndex::find_before(std::uint64_t value) const {
  const RegionRun* run = region_at(value);
  if (run == nullptr || value % kWordBytes != 0) return kNone;
  const std::uint64_t place = (value - run->begin) / kWordBytes;
  for (std::uint64_t i = 1; i <= std::min(place, kMaxWordsBefore); ++i) {
    const std::uint64_t bit = run->first_bit + place - i;
    if ((bits_[bit / kBits] >> bit % kBits & 1) != 0) return count_before(bit);
  }
  return kNone;
}

std::uint64_t BlockIndex::address_of(std::uint32_t block) const {
  const auto word = static_cast<std::size_t>(
      std::upper_bound(counts_.begin(), counts_.end(), block) - counts_.begin() - 1);
  std::uint64_t bits = bits_[word];
  for (std::uint32_t skip = block - counts_[word]; skip > 0; --skip) bits &= bits - 1;
  const std::uint64_t bit = word * kBits + static_cast<std::uint64_t>(std::countr_zero(bits));
  const auto after = std::upper_bound(
      runs_.begin(), runs_.end(), bit,
      [](std::uint64_t place, const RegionRun& run) { return place < run.first_bit; });
  return (after - 1)->begin + (bit - (after - 1)->first_bit) * kWordBytes;
}

}  // namespace memprofd
