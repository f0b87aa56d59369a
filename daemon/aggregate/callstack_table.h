// SPDX-License-Identifier: Apache-2.0
// The callstacks of one target, each kept once. When there are too many, further ones are
// truncated: those with the same kCutEntries innermost entries become one, which still has the site
// and its nearest callers. With room for two whole ones, and truncation to two entries:
//
//   arrives   a<b<c   a<b<d   a<e<f   a<e<g   a<b<c
//   kept      a<b<c   a<b<d   a<e     a<e     a<b<c
//   id        1       2       3       3       1
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/model/callstack.h"
#include "daemon/util/byte_budget.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"
#include "daemon/util/stable_vector.h"

namespace memprofd {

struct CallstackTableLimits {
  std::size_t callstacks = 65536;      // whole ones, the unknown one not counted
  std::size_t entries = 8u << 20;      // over all whole ones, 8 bytes each
  std::size_t cut_callstacks = 16384;  // of at most kCutEntries
  std::size_t cut_hashes = 262144;     // remembered of whole ones that were cut
  SharedBudget memory;                 // charged for the table; null: nothing is charged
};

// Ids are dense, start at 1 and are never reused; id 0 is the unknown callstack, which has no
// entries. The first arrival of a hash determines the entries; later arrivals of the same hash
// change nothing.
class CallstackTable {
 public:
  static constexpr std::size_t kCutEntries = 16;

  explicit CallstackTable(const CallstackTableLimits& limits = {});

  std::optional<CallstackId> find(StackHash hash) const;
  // nullopt when there is no room left even for cut ones, and the hash is new.
  std::optional<CallstackId> intern(const CallstackView& view);
  // Called before the first intern(): stores a callstack of another table under its id there, in
  // ascending order. Ids in between have no entries.
  void keep(const Callstack& callstack);
  // True if a whole callstack did not fit: from then on all new ones are truncated.
  bool overflowed() const { return first_cut_.has_value(); }
  // Counts what find() or intern() answered when that was cut or nothing, which becomes the
  // unknown one.
  CallstackId counted(std::optional<CallstackId> id, DropCounters& drops) const;

  // The unknown one for an id that this table did not give. Stays where it is as
  // long as the table or what kept() answered.
  const Callstack& get(CallstackId id) const;
  // Owns all callstacks.
  std::shared_ptr<const void> kept() const { return callstacks_; }
  // Callstacks kept, cut ones too, the unknown one not counted.
  std::size_t size() const { return callstacks_->size() - 1; }

 private:
  bool has_room_for(const CallstackView& view);
  std::optional<CallstackId> intern_cut(const CallstackView& view);
  CallstackId add(const CallstackView& view);

  CallstackTableLimits limits_;
  absl::flat_hash_map<StackHash, CallstackId> ids_;
  const std::shared_ptr<StableVector<Callstack>> callstacks_;  // by id
  std::size_t entries_ = 0;
  std::optional<CallstackId> first_cut_;  // this and all ids behind it
  ByteCharge charge_;
};

}  // namespace memprofd
