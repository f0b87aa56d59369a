// SPDX-License-Identifier: Apache-2.0
// Writes frame descriptors into the table while BPF programs use it for walks.
//
// The table only grows: an empty slot is filled, or the frame size of an address is replaced. Each
// change is one aligned 8-byte store, so that a concurrent walk sees the old or the new slot and
// stays correct.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace memprofd {

// Adds every slot of `additions` (a table of any size, including empty slots) to `table` with 1 <<
// bits slots. kResourceExhausted if one of them would need more than MEMPROF_MAX_PROBES probes; the
// others have been added then.
absl::Status add_kernel_slots(std::span<std::uint64_t> table, std::uint32_t bits,
                              std::span<const std::uint64_t> additions);

}  // namespace memprofd
