// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/callstack_table.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/types/span.h"

namespace memprofd {
namespace {

Callstack copy_of(CallstackId id, const CallstackView& view) {
  return {.id = id,
          .hash = view.hash,
          .entries = {view.entries.begin(), view.entries.end()},
          .alloc_idx = view.alloc_idx,
          .n_frames = view.n_frames,
          .truncated = view.truncated,
          .broken = view.broken};
}

// A callstack with its slots in the tables, which may be half empty.
std::uint64_t bytes_of(std::size_t entries) {
  constexpr std::size_t kHashSlot = sizeof(StackHash) + sizeof(CallstackId) + 1;
  return 2 * (sizeof(Callstack) + kHashSlot) + entries * sizeof(std::uint64_t);
}

}  // namespace

CallstackTable::CallstackTable(const CallstackTableLimits& limits)
    : limits_(limits),
      callstacks_(std::make_shared<StableVector<Callstack>>()),
      charge_(limits.memory) {
  callstacks_->push_back({});
}

std::optional<CallstackId> CallstackTable::find(StackHash hash) const {
  const auto it = ids_.find(hash);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

std::optional<CallstackId> CallstackTable::intern(const CallstackView& view) {
  if (const auto known = find(view.hash)) return known;
  if (!overflowed() && has_room_for(view)) return add(view);
  if (!overflowed()) first_cut_ = CallstackId(static_cast<std::uint32_t>(callstacks_->size()));
  const auto id = intern_cut(view);
  const std::size_t cut_hashes = ids_.size() - size();  // one for each callstack
  if (id && cut_hashes < limits_.cut_hashes) ids_.emplace(view.hash, *id);
  return id;
}

// Returns true if there is room for the callstack, and charges its memory.
bool CallstackTable::has_room_for(const CallstackView& view) {
  return size() < limits_.callstacks && view.entries.size() <= limits_.entries - entries_ &&
         charge_.grow_or_count(bytes_of(view.entries.size()));
}

std::optional<CallstackId> CallstackTable::intern_cut(const CallstackView& view) {
  CallstackView cut = view;
  cut.entries = view.entries.first(std::min(kCutEntries, view.entries.size()));
  cut.truncated |= cut.entries.size() < view.entries.size();
  const auto entries = absl::MakeConstSpan(cut.entries.data(), cut.entries.size());
  cut.hash = StackHash(absl::HashOf(entries, cut.alloc_idx));
  if (const auto known = find(cut.hash)) return known;
  if (callstacks_->size() - first_cut_->value() >= limits_.cut_callstacks ||
      !charge_.grow_or_count(bytes_of(cut.entries.size()))) {
    return std::nullopt;
  }
  return add(cut);
}

CallstackId CallstackTable::add(const CallstackView& view) {
  const CallstackId id(static_cast<std::uint32_t>(callstacks_->size()));
  callstacks_->push_back(copy_of(id, view));
  entries_ += view.entries.size();
  ids_.emplace(view.hash, id);
  return id;
}

void CallstackTable::keep(const Callstack& callstack) {
  if (callstack.id.value() < callstacks_->size()) return;
  while (callstacks_->size() < callstack.id.value()) callstacks_->push_back({});
  callstacks_->push_back(callstack);
  charge_.grow_anyway(bytes_of(callstack.entries.size()));
  entries_ += callstack.entries.size();
  ids_.emplace(callstack.hash, callstack.id);
}

CallstackId CallstackTable::counted(std::optional<CallstackId> id, DropCounters& drops) const {
  if (!id) {
    drops.add(Drop::kFollowCallstacksFull);
  } else if (first_cut_ && id->value() >= first_cut_->value()) {
    drops.add(Drop::kFollowCallstacksCut);
  }
  return id.value_or(CallstackId());
}

const Callstack& CallstackTable::get(CallstackId id) const {
  return (*callstacks_)[id.value() < callstacks_->size() ? id.value() : 0];
}

}  // namespace memprofd
