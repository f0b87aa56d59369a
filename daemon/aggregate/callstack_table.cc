#include "daemon/aggregate/callstack_table.h"

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

}  // namespace

CallstackTable::CallstackTable(const CallstackTableLimits& limits)
    : limits_(limits), callstacks_(std::make_shared<StableVector<Callstack>>()) {
  callstacks_->push_back({});
}

std::optional<CallstackId> CallstackTable::find(StackHash hash) const {
  const auto it = ids_.find(hash);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

std::optional<CallstackId> CallstackTable::intern(const CallstackView& view) {
  if (const auto known = find(view.hash)) return known;
  if (size() >= limits_.callstacks || view.entries.size() > limits_.entries - entries_) {
    overflowed_ = true;
    return std::nullopt;
  }
  const CallstackId id(static_cast<std::uint32_t>(callstacks_->size()));
  callstacks_->push_back(copy_of(id, view));
  entries_ += view.entries.size();
  ids_.emplace(view.hash, id);
  return id;
}

const Callstack& CallstackTable::get(CallstackId id) const {
  return (*callstacks_)[id.value() < callstacks_->size() ? id.value() : 0];
}

}  // namespace memprofd
