// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_table.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "bpf/events.h"

namespace memprofd {
namespace {

// Returns false if every slot that a walk would examine is taken.
bool add_slot(std::span<std::uint64_t> table, std::uint32_t bits, std::uint64_t value) {
  const std::uint64_t address = MEMPROF_SLOT_RETADDR(value);
  const std::uint32_t home = memprof_slot_home(address, bits);
  const std::uint32_t mask = (1u << bits) - 1;
  for (std::uint32_t i = 0; i < MEMPROF_MAX_PROBES; ++i) {
    std::atomic_ref<std::uint64_t> slot(table[(home + i) & mask]);
    const std::uint64_t old = slot.load(std::memory_order_relaxed);
    if (old != 0 && MEMPROF_SLOT_RETADDR(old) != address) continue;
    slot.store(value, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace

absl::Status add_kernel_slots(std::span<std::uint64_t> table, std::uint32_t bits,
                              std::span<const std::uint64_t> additions) {
  std::uint64_t refused = 0;
  for (const std::uint64_t value : additions)
    if (value != 0 && !add_slot(table, bits, value)) ++refused;
  if (refused == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for ", refused, " new frame descriptors in the kernel's table of ",
                   table.size(), " slots; detach and attach again"));
}

}  // namespace memprofd
