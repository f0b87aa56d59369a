// SPDX-License-Identifier: Apache-2.0
// The allocation classes of one target, each kept once.
//
// A table that fills up distinguishes new classes less and less, so that a program with many
// classes does not end up under "unknown". Of N classes, those that come
//
//   before N/2    are as they are
//   before 3N/4   have no thread
//   before 7N/8   have their octave for a size too
//   before N      have no size and no domain either: their callstack, heap and source are left
//   after         are unknown
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/model/alloc_class.h"
#include "daemon/util/byte_budget.h"

namespace memprofd {

struct AllocClassLimits {
  std::size_t classes = 131072;  // the unknown one not counted
  // Threads that are distinguished; blocks of all later ones have AllocClass::kAnyThread.
  std::size_t threads = 64;
  SharedBudget memory;  // charged for the table; null: nothing is charged
};

// Ids are dense, start at 1 and are never reused.
class AllocClassTable {
 public:
  explicit AllocClassTable(const AllocClassLimits& limits = {});

  struct Interned {
    ClassId id;          // the unknown class when the table is full and the class is new
    bool whole = false;  // all properties of the class are known
  };
  Interned intern(AllocClass alloc_class);
  // Before the first intern(): a class of another table under the id it had there, by ascending id.
  void keep(ClassId id, const AllocClass& alloc_class);
  // The unknown class for an id that this table did not give.
  const AllocClass& get(ClassId id) const;
  // Classes kept, the unknown one not counted.
  std::size_t size() const { return classes_.size() - 1; }

 private:
  ClassId& latest_of(CallstackId callstack);
  Interned find_or_add(AllocClass alloc_class);
  ClassId add(const AllocClass& alloc_class);
  bool has_own_class(std::uint32_t thread);

  AllocClassLimits limits_;
  absl::flat_hash_map<AllocClass, ClassId> ids_;
  absl::flat_hash_set<std::uint32_t> threads_;
  std::uint32_t last_thread_ = AllocClass::kAnyThread;  // the last distinguished one
  std::vector<AllocClass> classes_;                     // by id
  // The last class of each callstack. Most callstacks have only one, which then needs no search.
  std::vector<ClassId> latest_;
  ByteCharge charge_;
};

}  // namespace memprofd
