// SPDX-License-Identifier: Apache-2.0
// Slots of the registry of published values that hold assertions.
#pragma once

#include <cstdint>
#include <optional>

#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/snapshot/heap_assertion.h"

namespace memprofd {

static_assert(MEMPROF_VALUES_SLOTS <= kMaxAssertions);

// slot_kind: of memprof_slot. Returns nothing if the slot is that of a published value.
constexpr std::optional<AssertionKind> assertion_kind_of(std::uint32_t slot_kind) {
  switch (slot_kind) {
    case MEMPROF_SLOT_UNREACHABLE:
      return AssertionKind::kUnreachable;
    case MEMPROF_SLOT_DIES_BEFORE:
      return AssertionKind::kDiesBefore;
    case MEMPROF_SLOT_REGION:
      return AssertionKind::kRegion;
    default:
      return std::nullopt;
  }
}

}  // namespace memprofd
