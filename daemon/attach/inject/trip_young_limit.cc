// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/trip_young_limit.h"

#include <cstdint>
#include <set>

#include "daemon/discover/minor_heap.h"

namespace memprofd {
namespace {

// The states of the domains that threads are in; several threads may share one.
std::set<std::uint64_t> domain_states(const Target& target, const KernelSide& kernel) {
  if (!target.abi.domains) return {target.caml_state_address};
  std::set<std::uint64_t> states;
  if (!target.state_offset) return states;
  for (const std::uint64_t pointer : kernel.thread_pointers()) {
    std::uint64_t state = 0;
    const auto place = pointer + static_cast<std::uint64_t>(*target.state_offset);
    if (target.memory->read_value(place, state).ok() && state != 0) states.insert(state);
  }
  return states;
}

// True if this is the state of a domain.
bool has_minor_heap(const MemoryReader& memory, const RuntimeAbi& abi, std::uint64_t state) {
  std::uint64_t next = 0, end = 0;
  if (state % 8 != 0 || !memory.read_value(state + abi.young_ptr, next).ok() ||
      !memory.read_value(state + abi.young_alloc_end, end).ok()) {
    return false;
  }
  return next != 0 && next <= end && end - next < kMaxMinorHeapBytes;
}

}  // namespace

void trip_young_limit_of_domain(const WritableMemory& memory, const RuntimeAbi& abi,
                                std::uint64_t state, std::uint64_t pending_actions) {
  if (!has_minor_heap(memory, abi, state)) return;
  if (!abi.domains) (void)memory.write_value(pending_actions, std::uint32_t{1});
  (void)memory.write_value(state + abi.young_limit, ~std::uint64_t{0});
}

void trip_young_limit(const Target& target, const KernelSide& kernel) {
  for (const std::uint64_t state : domain_states(target, kernel)) {
    trip_young_limit_of_domain(*target.memory, target.abi, state, target.pending_actions);
  }
}

}  // namespace memprofd
