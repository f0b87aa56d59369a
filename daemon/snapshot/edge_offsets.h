// SPDX-License-Identifier: Apache-2.0
// Tens of millions of non-decreasing numbers in two bytes each: the positions at which the edges of
// each graph node begin. Stored as distances from the first of each group of 64; larger distances,
// behind a node with very many edges, are stored separately.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace memprofd {

class EdgeOffsets {
 public:
  std::size_t size() const { return distances_.size(); }
  std::uint32_t operator[](std::size_t i) const {
    const std::uint16_t distance = distances_[i];
    if (distance == kFar) [[unlikely]]
      return far_.find(static_cast<std::uint32_t>(i))->second;
    return groups_[i / kGroup] + distance;
  }
  // Prefetches entry i into the cache.
  void prefetch(std::size_t i) const {
    __builtin_prefetch(&distances_[i]);
    __builtin_prefetch(&groups_[i / kGroup]);
  }
  std::uint32_t back() const { return (*this)[size() - 1]; }
  // Number of entries that are at most `number`.
  std::size_t up_to(std::uint32_t number) const {
    std::size_t begin = 0;
    for (std::size_t left = size(); left != 0;) {
      const std::size_t half = left / 2;
      const bool is_in = (*this)[begin + half] <= number;
      begin += is_in ? half + 1 : 0;
      left = is_in ? left - half - 1 : half;
    }
    return begin;
  }

  // number must not be smaller than the last one.
  void push_back(std::uint32_t number) {
    if (size() % kGroup == 0) groups_.push_back(number);
    const std::uint32_t distance = number - groups_.back();
    if (distance >= kFar) far_.emplace(static_cast<std::uint32_t>(size()), number);
    distances_.push_back(static_cast<std::uint16_t>(std::min<std::uint32_t>(distance, kFar)));
  }
  // Keeps the first count entries.
  void cut(std::size_t count) {
    distances_.resize(count);
    groups_.resize((count + kGroup - 1) / kGroup);
    absl::erase_if(far_, [count](const auto& far) { return far.first >= count; });
  }
  void reserve(std::size_t count) {
    distances_.reserve(count);
    groups_.reserve(count / kGroup + 1);
  }

  friend bool operator==(const EdgeOffsets&, const EdgeOffsets&) = default;

 private:
  static constexpr std::size_t kGroup = 64;
  static constexpr std::uint16_t kFar = 0xffff;

  std::vector<std::uint32_t> groups_;  // first number of each group
  std::vector<std::uint16_t> distances_;
  absl::flat_hash_map<std::uint32_t, std::uint32_t> far_;  // by position
};

}  // namespace memprofd
