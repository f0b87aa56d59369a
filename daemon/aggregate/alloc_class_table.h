// SPDX-License-Identifier: Apache-2.0
// The allocation classes of one target, each stored once.
//
// As the table fills up, it distinguishes fewer properties of new classes, so that a program with
// many classes does not end up under "unknown". With room for N classes, those that arrive
//
//   before N/2    are stored completely
//   before 3N/4   lose the thread
//   before 7N/8   also lose the exact size and keep its octave
//   before N      also lose size and domain; callstack, heap and source remain
//   after         become the unknown class
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/model/alloc_class.h"
#include "daemon/util/byte_budget.h"

namespace memprofd {

struct AllocClassLimits {
  std::size_t classes = 131072;  // without the unknown class
  // Number of distinguished threads; blocks of all later threads have AllocClass::kAnyThread.
  std::size_t threads = 64;
  SharedBudget memory;  // charged for the table; null: no limit
};

// Ids are dense, start at 1 and are never reused.
class AllocClassTable {
 public:
  explicit AllocClassTable(const AllocClassLimits& limits = {});

  struct Interned {
    ClassId id;          // the unknown class if the table is full and the class is new
    bool whole = false;  // no property of the class was dropped
  };
  Interned intern(AllocClass alloc_class);
  // Stores a class of another table under its id there, by ascending id. Call this before the first
  // intern().
  void keep(ClassId id, const AllocClass& alloc_class);
  // Returns the unknown class for an id that this table did not assign.
  const AllocClass& get(ClassId id) const;
  // Number of stored classes without the unknown one.
  std::size_t size() const { return classes_.size() - 1; }

 private:
  ClassId& latest_of(CallstackId callstack);
  Interned find_or_add(AllocClass alloc_class);
  ClassId add(const AllocClass& alloc_class);
  bool has_own_class(std::uint32_t thread);

  AllocClassLimits limits_;
  absl::flat_hash_map<AllocClass, ClassId> ids_;
  absl::flat_hash_set<std::uint32_t> threads_;
  std::uint32_t last_thread_ = AllocClass::kAnyThread;  // the last thread that is distinguished
  std::vector<AllocClass> classes_;                     // indexed by id
  // The last class of each callstack. Most callstacks have only one, which is found without a
  // search.
  std::vector<ClassId> latest_;
  ByteCharge charge_;
};

}  // namespace memprofd
