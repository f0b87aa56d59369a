#include "daemon/attach/hurry.h"

#include <cstdint>
#include <set>
#include <span>

#include "daemon/discover/minor_heap.h"
#include "daemon/discover/process_memory.h"

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

// Where the minor heap ends; 0 when this is no domain's state.
std::uint64_t minor_heap_end(const Target& target, std::uint64_t state) {
  std::uint64_t next = 0, end = 0;
  if (state % 8 != 0 || !target.memory->read_value(state + target.abi.young_ptr, next).ok() ||
      !target.memory->read_value(state + target.abi.young_alloc_end, end).ok()) {
    return 0;
  }
  return next != 0 && next <= end && end - next < kMaxMinorHeapBytes ? end : 0;
}

template <typename T>
void write_value(const Target& target, std::uint64_t address, T value) {
  (void)write_process_memory(target.pid, address, std::as_bytes(std::span<const T, 1>(&value, 1)));
}

}  // namespace

void hurry(const Target& target, const KernelSide& kernel) {
  for (const std::uint64_t state : domain_states(target, kernel)) {
    const std::uint64_t end = minor_heap_end(target, state);
    if (end == 0) continue;
    const std::uint64_t limit = state + target.abi.young_limit;
    if (target.abi.domains) {
      write_value(target, limit, ~std::uint64_t{0});  // what any thread may write
    } else {
      write_value(target, target.pending_actions, std::uint32_t{1});
      write_value(target, limit, end);
    }
  }
}

}  // namespace memprofd
