// SPDX-License-Identifier: Apache-2.0
// The callstacks of one target, each stored once. When the table is full, further callstacks are
// truncated: those with the same kCutEntries innermost entries become one, which still contains the
// site and its nearest callers. With room for two whole ones, and truncation to two entries:
//
//   arrives   a<b<c   a<b<d   a<e<f   a<e<g   a<b<c
//   stored    a<b<c   a<b<d   a<e     a<e     a<b<c
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
  std::size_t callstacks = 65536;      // whole ones, without the unknown one
  std::size_t entries = 8u << 20;      // total of all whole ones, 8 bytes each
  std::size_t cut_callstacks = 16384;  // truncated to kCutEntries
  std::size_t cut_hashes = 262144;     // hashes of whole callstacks that were truncated
  SharedBudget memory;                 // charged for the table; null: no limit
};

// Ids are dense, start at 1 and are never reused. Id 0 is the unknown callstack, which has no
// entries. The first arrival of a hash determines the entries; later arrivals of the same hash do
// not change them.
class CallstackTable {
 public:
  static constexpr std::size_t kCutEntries = 16;

  explicit CallstackTable(const CallstackTableLimits& limits = {});

  std::optional<CallstackId> find(StackHash hash) const;
  // Returns nullopt for a new hash if not even a truncated callstack fits.
  std::optional<CallstackId> intern(const CallstackView& view);
  // Stores a callstack of another table under its id there, in ascending order; call it before the
  // first intern(). Ids in between have no entries.
  void keep(const Callstack& callstack);
  // True if a whole callstack did not fit. From then on all new ones are truncated.
  bool overflowed() const { return first_cut_.has_value(); }
  // Counts a drop if find() or intern() returned a truncated callstack or nothing. Maps nothing to
  // the unknown callstack.
  CallstackId counted(std::optional<CallstackId> id, DropCounters& drops) const;

  // Returns the unknown callstack for an id that this table did not assign. The reference stays
  // valid as long as the table or the result of kept().
  const Callstack& get(CallstackId id) const;
  // Shares ownership of all callstacks.
  std::shared_ptr<const void> kept() const { return callstacks_; }
  // Number of stored callstacks, including truncated ones, without the unknown one.
  std::size_t size() const { return callstacks_->size() - 1; }

 private:
  bool has_room_for(const CallstackView& view);
  std::optional<CallstackId> intern_cut(const CallstackView& view);
  CallstackId add(const CallstackView& view);

  CallstackTableLimits limits_;
  absl::flat_hash_map<StackHash, CallstackId> ids_;
  const std::shared_ptr<StableVector<Callstack>> callstacks_;  // indexed by id
  std::size_t entries_ = 0;
  std::optional<CallstackId> first_cut_;  // first truncated id; all later ids are truncated too
  ByteCharge charge_;
};

}  // namespace memprofd
