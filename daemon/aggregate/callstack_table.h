// The callstacks of one target, each kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/aggregate/callstack.h"
#include "daemon/util/ids.h"
#include "daemon/util/stable_vector.h"

namespace memprofd {

struct CallstackTableLimits {
  std::size_t callstacks = 65536;  // the unknown one not counted
  std::size_t entries = 8u << 20;  // over all callstacks, 8 bytes each
};

// A callstack as it arrives; entries are borrowed for the call.
struct CallstackView {
  StackHash hash;
  std::span<const std::uint64_t> entries;
  std::int32_t alloc_idx = -1;
  std::uint32_t n_frames = 0;
  bool truncated = false;
  bool broken = false;
};

// Ids are dense, start at 1 and are never reused; id 0 is the unknown
// callstack, which has no entries. Entries are what the first arrival of a hash
// said; later arrivals of the same hash change nothing.
class CallstackTable {
 public:
  explicit CallstackTable(const CallstackTableLimits& limits = {});

  std::optional<CallstackId> find(StackHash hash) const;
  // nullopt when the table is full and the hash is new.
  std::optional<CallstackId> intern(const CallstackView& view);
  // Whether intern() has ever refused a callstack.
  bool overflowed() const { return overflowed_; }

  // The unknown one for an id that this table did not give. Stays where it is as
  // long as the table or what kept() answered.
  const Callstack& get(CallstackId id) const;
  // Owns all callstacks.
  std::shared_ptr<const void> kept() const { return callstacks_; }
  // Callstacks kept, the unknown one not counted.
  std::size_t size() const { return callstacks_->size() - 1; }

 private:
  CallstackTableLimits limits_;
  absl::flat_hash_map<StackHash, CallstackId> ids_;
  const std::shared_ptr<StableVector<Callstack>> callstacks_;  // by id
  std::size_t entries_ = 0;
  bool overflowed_ = false;
};

}  // namespace memprofd
