// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/drops.h"

#include "bpf/events.h"

namespace memprofd {
namespace {

// One a line, in the order of Drop.
// clang-format off
constexpr std::array<DropName, kDrops> kNames = {{
    {"kernel", "capture_ring_full"},
    {"kernel", "capture_scratch_busy"},
    {"kernel", "capture_no_state"},
    {"kernel", "batch_ring_full"},
    {"kernel", "batch_bad_count"},
    {"kernel", "batch_unreadable"},
    {"kernel", "lifecycle_ring_full"},
    {"kernel", "observed_no_state"},
    {"kernel", "observed_ring_full"},
    {"kernel", "children_full"},
    {"decode", "too_short"},
    {"decode", "bad_kind"},
    {"decode", "bad_count"},
    {"decode", "bad_record"},
    {"decode", "bad_counters"},
    {"pair", "no_capture"},
    {"pair", "unused_capture", true},
    {"pair", "queue_full"},
    {"pair", "unknown_stack"},
    {"pair", "broken_stack"},
    {"follow", "lost_records"},
    {"follow", "unknown_sample", true},
    {"follow", "live_set_full", true},
    {"follow", "session_end", true},
    {"follow", "stale_session", true},
    {"follow", "callstacks_cut"},
    {"follow", "callstacks_full"},
    {"follow", "classes_full"},
    {"agent", "domain_in_use"},
    {"agent", "domains_full"},
    {"agent", "stopped_by_program"},
    {"discover", "memory_full"},
    {"symbolize", "memory_full"},
}};
// clang-format on

static_assert(static_cast<int>(Drop::kKernelObservedRingFull) == MEMPROF_DROP_OBSERVED_RING_FULL);
static_assert(static_cast<int>(Drop::kKernelChildrenFull) == MEMPROF_DROP_CHILDREN_FULL);
static_assert(static_cast<int>(Drop::kDecodeTooShort) == MEMPROF_KERNEL_DROPS);
static_assert(!kNames.back().reason.empty());

}  // namespace

DropName drop_name(Drop drop) { return kNames[static_cast<int>(drop)]; }

std::uint64_t DropCounters::sum(bool given_up) const {
  std::uint64_t result = 0;
  for (int i = 0; i < kDrops; ++i) result += kNames[i].given_up == given_up ? counts_[i] : 0;
  return result;
}

}  // namespace memprofd
