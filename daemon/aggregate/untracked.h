// SPDX-License-Identifier: Apache-2.0
// Blocks whose allocation was counted but that are not, or no longer, followed. Later events of
// such a block are no loss.
//
// The numbers of a buffer's sampled blocks ascend, so one number covers all unfollowed blocks up to
// it:
//
//   numbers    1 2 3 | 4 5 6        all up to 3 were released when records were lost
//   followed         | 4   6        5 is not followed: all up to 5 are released
//   dies             | 2 5: known   9: never seen
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/util/ids.h"

namespace memprofd {

class Untracked {
 public:
  // id_step: difference between consecutive block numbers of one buffer.
  explicit Untracked(std::uint64_t id_step) : buffers_(id_step) {}

  void see(SampleId id) { of(id).seen = std::max(of(id).seen, id.value()); }
  // Releases a block that was seen.
  void add(SampleId id) { of(id).until = std::max(of(id).until, id.value()); }
  void add_all_seen() {
    for (Buffer& buffer : buffers_) buffer.until = buffer.seen;
  }
  // True if an unfollowed block was released deliberately.
  bool has(SampleId id) const { return id.value() <= buffers_[id.value() % buffers_.size()].until; }

 private:
  struct Buffer {
    std::uint64_t seen = 0;   // the last number seen
    std::uint64_t until = 0;  // blocks up to this number
  };
  Buffer& of(SampleId id) { return buffers_[id.value() % buffers_.size()]; }

  std::vector<Buffer> buffers_;
};

}  // namespace memprofd
