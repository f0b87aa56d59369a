// SPDX-License-Identifier: Apache-2.0
// Addresses of live sampled native blocks, and the resident share of each.
//
// A block whose end was missed would stay live forever. A block that two scans find gone has ended.
// One scan alone may be wrong, because memory changes meanwhile.
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
  // Maximum number of remembered blocks: twice the number that an agent follows.
  static constexpr std::size_t kMaxBlocks = 1u << 17;

  void add(const NativeBlock& block);
  // Removes a block. Returns its resident share at the last scan; nullopt if it was not scanned.
  std::optional<float> take(std::uint64_t number);
  // Returns true if there was anything to clear.
  bool clear();

  std::vector<NativeBlock> all() const;
  // Stores the result of a scan for a live block and returns the previous one.
  std::optional<float> note(std::uint64_t number, float share);
  // Called after a scan: removes and returns the blocks that two scans found gone.
  std::vector<std::uint64_t> missed(const ResidencyScan& scan);
  // Returns true, once, if the end that is now reported had already been assumed.
  bool was_missed(std::uint64_t number) { return missed_.erase(number) != 0; }

 private:
  struct Block {
    std::uint64_t address;
    std::uint64_t bytes;
    float share;  // below 0: not scanned yet
  };
  bool noted_ = false;
  absl::flat_hash_map<std::uint64_t, Block> blocks_;
  absl::flat_hash_set<std::uint64_t> gone_;    // at the last scan
  absl::flat_hash_set<std::uint64_t> missed_;  // blocks whose end may still be reported
};

}  // namespace memprofd
