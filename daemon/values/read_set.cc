// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/read_set.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/snapshot/block_header.h"
#include "daemon/values/page_cache.h"

namespace memprofd {
namespace {

void forget_color(std::byte* header) {
  std::uint64_t word = 0;
  std::memcpy(&word, header, sizeof word);
  word -= colour_of(word);
  std::memcpy(header, &word, sizeof word);
}

}  // namespace

// A header and its fields are often read one after the other, and then again.
bool ReadSet::continues(std::uint64_t address, std::size_t bytes, bool is_there) {
  if (parts_.empty() || !is_there || !parts_.back().is_there) return false;
  Part& last = parts_.back();
  if (address != last.end()) return false;
  last.bytes += static_cast<std::uint32_t>(bytes);
  return true;
}

void ReadSet::add(std::uint64_t address, std::span<const std::byte> bytes, bool is_there) {
  if (!is_all_) return;
  const auto is_within = [&](const Part& part) {
    return part.is_there && is_there && address >= part.address &&
           address + bytes.size() <= part.end();
  };
  if (!parts_.empty() && is_within(parts_.back())) return;
  is_all_ = parts_.size() < kMaxParts && held_.size() + bytes.size() <= kMaxBytes;
  if (!is_all_) return;
  if (!continues(address, bytes.size(), is_there)) {
    parts_.push_back({address, static_cast<std::uint32_t>(bytes.size()), is_there});
  }
  if (is_there) held_.insert(held_.end(), bytes.begin(), bytes.end());
}

void ReadSet::add_header(std::uint64_t address, std::uint64_t header, bool is_there) {
  const std::size_t before = held_.size();
  add(address, std::as_bytes(std::span(&header, 1)), is_there);
  if (held_.size() == before) return;  // it was recorded before
  headers_.push_back(static_cast<std::uint16_t>(before));
  forget_color(&held_[before]);
}

bool ReadSet::is_in(const MemoryReader& memory) const {
  if (!is_known()) return false;
  std::array<std::byte, kMaxBytes> now;
  const std::byte* held = held_.data();
  auto header = headers_.begin();
  for (const Part& part : parts_) {
    const bool is_there = memory.read(part.address, std::span(now).first(part.bytes)).ok();
    if (is_there != part.is_there) return false;
    if (!is_there) continue;
    const auto begin = static_cast<std::size_t>(held - held_.data());
    for (; header != headers_.end() && *header < begin + part.bytes; ++header) {
      forget_color(&now[*header - begin]);
    }
    if (!std::equal(held, held + part.bytes, now.begin())) return false;
    held += part.bytes;
  }
  return true;
}

void ReadSet::add_places(std::vector<std::uint64_t>& places) const {
  for (const Part& part : parts_) {
    places.push_back(part.address);
    const std::uint64_t last = part.end() - 1;
    if (last / PageCache::kPageBytes != part.address / PageCache::kPageBytes) {
      places.push_back(last);
    }
  }
}

void ReadSet::add_ranges(std::vector<AddressRange>& ranges) const {
  for (const Part& part : parts_) ranges.push_back({part.address, part.end()});
}

}  // namespace memprofd
