// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/alloc_class_table.h"

namespace memprofd {

AllocClassTable::AllocClassTable(const AllocClassLimits& limits) : limits_(limits) {
  classes_.emplace_back();
}

ClassId AllocClassTable::intern(AllocClass alloc_class) {
  if (!told_apart(alloc_class.thread)) alloc_class.thread = AllocClass::kAnyThread;
  if (const auto known = ids_.find(alloc_class); known != ids_.end()) return known->second;
  if (size() >= limits_.classes) return ClassId();
  const ClassId id(static_cast<std::uint32_t>(classes_.size()));
  classes_.push_back(alloc_class);
  ids_.emplace(alloc_class, id);
  return id;
}

bool AllocClassTable::told_apart(std::uint32_t thread) {
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
