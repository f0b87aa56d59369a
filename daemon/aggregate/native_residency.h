// SPDX-License-Identifier: Apache-2.0
// Addresses of live sampled native blocks, and how much of each is resident.
//
// A block whose end was missed would stay live for ever. A block that two readings find gone has
// ended; one reading alone may be wrong, because memory changes meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/model/native_block.h"

namespace memprofd {

class NativeResidency {
 public:
  // Blocks that are remembered: twice as many as an agent follows.
  static constexpr std::size_t kMostBlocks = 1u << 17;

  void add(const NativeBlock& block);
  // The share that was resident at the last reading; nothing if it was not read.
  std::optional<float> take(std::uint64_t number);
  // Returns true if there was anything to clear.
  bool clear();

  std::vector<NativeBlock> all() const;
  // Stores the result of a reading for a live block; returns the previous one.
  std::optional<float> note(std::uint64_t number, float share);
  // Called after a reading: blocks that two readings found gone, which are removed.
  std::vector<std::uint64_t> missed(const ResidencyScan& scan);
  // True, once, if the end that is reported now had been assumed missed.
  bool was_missed(std::uint64_t number) { return missed_.erase(number) != 0; }

 private:
  struct Block {
    std::uint64_t address;
    std::uint64_t bytes;
    float share;  // below 0: not read yet
  };
  bool noted_ = false;
  absl::flat_hash_map<std::uint64_t, Block> blocks_;
  absl::flat_hash_set<std::uint64_t> gone_;    // according to the last reading
  absl::flat_hash_set<std::uint64_t> missed_;  // whose end may still be reported
};

}  // namespace memprofd
