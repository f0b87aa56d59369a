// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/alloc_class_table.h"

#include <cstddef>
#include <iterator>

#include "daemon/aggregate/counters.h"

namespace memprofd {
namespace {

// Removes a property from a class that one step still distinguishes and the next one does not.
using Coarsen = void (*)(AllocClass&);
constexpr Coarsen kCoarsen[] = {
    [](AllocClass& c) { c.thread = AllocClass::kAnyThread; },
    [](AllocClass& c) { c.size = c.size.of_octave(); },
    [](AllocClass& c) {
      c.size = SizeBucket();
      c.domain = AllocClass::kAnyDomain;
    },
};
constexpr std::size_t kSteps = std::size(kCoarsen);

// A class with its counters and its slots in the tables, which may be half empty.
constexpr std::uint64_t kClassBytes =
    2 * (sizeof(AllocClass) + sizeof(Counters)) + 2 * (sizeof(AllocClass) + sizeof(ClassId) + 1);

// Number of classes up to which new ones keep the properties of this step: half of the table, and
// half of the rest at each further step.
std::size_t room_at(std::size_t step, std::size_t limit) {
  return step == kSteps ? limit : limit - (limit >> (step + 1));
}

}  // namespace

AllocClassTable::AllocClassTable(const AllocClassLimits& limits)
    : limits_(limits), charge_(limits.memory) {
  classes_.emplace_back();
}

AllocClassTable::Interned AllocClassTable::intern(AllocClass alloc_class) {
  if (!has_own_class(alloc_class.thread)) alloc_class.thread = AllocClass::kAnyThread;
  ClassId& latest = latest_of(alloc_class.callstack);
  if (classes_[latest.value()] == alloc_class && latest != ClassId()) return {latest, true};
  const Interned interned = find_or_add(alloc_class);
  latest = interned.id;
  return interned;
}

ClassId& AllocClassTable::latest_of(CallstackId callstack) {
  if (callstack.value() >= latest_.size()) latest_.resize(callstack.value() + 1);
  return latest_[callstack.value()];
}

AllocClassTable::Interned AllocClassTable::find_or_add(AllocClass alloc_class) {
  for (std::size_t step = 0;; ++step) {
    if (const auto known = ids_.find(alloc_class); known != ids_.end()) {
      return {known->second, step == 0};
    }
    if (size() < room_at(step, limits_.classes)) {
      if (!charge_.grow_or_count(kClassBytes)) return {};
      return {add(alloc_class), step == 0};
    }
    if (step == kSteps) return {};
    kCoarsen[step](alloc_class);
  }
}

// Ids that are skipped become the unknown class.
void AllocClassTable::keep(ClassId id, const AllocClass& alloc_class) {
  if (id.value() < classes_.size()) return;
  classes_.resize(id.value());
  has_own_class(alloc_class.thread);
  charge_.grow_anyway(kClassBytes);
  add(alloc_class);
}

ClassId AllocClassTable::add(const AllocClass& alloc_class) {
  const ClassId id(static_cast<std::uint32_t>(classes_.size()));
  classes_.push_back(alloc_class);
  ids_.emplace(alloc_class, id);
  return id;
}

bool AllocClassTable::has_own_class(std::uint32_t thread) {
  if (thread == last_thread_) return true;
  if (!threads_.contains(thread)) {
    if (threads_.size() >= limits_.threads) return false;
    threads_.insert(thread);
  }
  last_thread_ = thread;
  return true;
}

const AllocClass& AllocClassTable::get(ClassId id) const {
  return classes_[id.value() < classes_.size() ? id.value() : 0];
}

}  // namespace memprofd
