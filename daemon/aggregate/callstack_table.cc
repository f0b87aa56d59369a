#include "daemon/aggregate/callstack_table.h"

namespace memprofd {
namespace {

std::shared_ptr<const Callstack> copy_of(const CallstackView& view) {
  auto callstack = std::make_shared<Callstack>();
  callstack->hash = view.hash;
  callstack->entries.assign(view.entries.begin(), view.entries.end());
  callstack->alloc_idx = view.alloc_idx;
  callstack->n_frames = view.n_frames;
  callstack->truncated = view.truncated;
  callstack->broken = view.broken;
  return callstack;
}

}  // namespace

CallstackTable::CallstackTable(const CallstackTableLimits& limits) : limits_(limits) {
  callstacks_.push_back(std::make_shared<const Callstack>());
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
  const CallstackId id(static_cast<std::uint32_t>(callstacks_.size()));
  callstacks_.push_back(copy_of(view));
  entries_ += view.entries.size();
  ids_.emplace(view.hash, id);
  return id;
}

const std::shared_ptr<const Callstack>& CallstackTable::get(CallstackId id) const {
  return callstacks_[id.value() < callstacks_.size() ? id.value() : 0];
}

}  // namespace memprofd
