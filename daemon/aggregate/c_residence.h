// SPDX-License-Identifier: Apache-2.0
// Where the sampled blocks of C's memory are that live, and how much of each is resident.
//
// A block whose end nobody saw would live for ever. Who finds twice, at two looks, that it is gone
// has missed that end: a look at memory that changes may err, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/model/c_block.h"

namespace memprofd {

class CResidence {
 public:
  // Blocks that are remembered: twice as many as an agent follows.
  static constexpr std::size_t kMostBlocks = 1u << 17;

  void add(const CBlockPlace& block);
  // The share of it that was resident at the last look; nothing where it was not looked at.
  std::optional<float> take(std::uint64_t number);
  // Whether anything had been noted of any.
  bool clear();

  std::vector<CBlockPlace> all() const;
  // Notes what a look has found of a block that lives; what was noted before.
  std::optional<float> note(std::uint64_t number, float share);
  // After all of a look: those that two looks have found gone, which are there no longer.
  std::vector<std::uint64_t> missed(const CBlockLook& look);
  // Whether the end of a block was missed that is told now, after all. Once.
  bool was_missed(std::uint64_t number) { return missed_.erase(number) != 0; }

 private:
  struct Block {
    std::uint64_t address;
    std::uint64_t bytes;
    float share;  // below 0: not looked at
  };
  bool noted_ = false;
  absl::flat_hash_map<std::uint64_t, Block> blocks_;
  absl::flat_hash_set<std::uint64_t> gone_;    // as the last look says
  absl::flat_hash_set<std::uint64_t> missed_;  // whose end may still be told
};

}  // namespace memprofd
