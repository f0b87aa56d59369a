// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/drops.h"

namespace memprofd {
namespace {

struct DropRow {
  Drop drop;
  DropName name;
};

// clang-format off
constexpr std::array<DropRow, kDrops> kRows = {{
    {Drop::kKernelCaptureRingFull, {"kernel", "capture_ring_full"}},
    {Drop::kKernelCaptureScratchBusy, {"kernel", "capture_scratch_busy"}},
    {Drop::kKernelCaptureNoState, {"kernel", "capture_no_state"}},
    {Drop::kKernelBatchRingFull, {"kernel", "batch_ring_full"}},
    {Drop::kKernelBatchBadCount, {"kernel", "batch_bad_count"}},
    {Drop::kKernelBatchUnreadable, {"kernel", "batch_unreadable"}},
    {Drop::kKernelLifecycleRingFull, {"kernel", "lifecycle_ring_full"}},
    {Drop::kKernelObservedNoState, {"kernel", "observed_no_state"}},
    {Drop::kKernelObservedRingFull, {"kernel", "observed_ring_full"}},
    {Drop::kKernelChildrenFull, {"kernel", "children_full"}},
    {Drop::kKernelNativeEventLost, {"kernel", "c_event_lost"}},
    {Drop::kKernelNativeStackLost, {"kernel", "c_stack_lost"}},
    {Drop::kKernelNativeNoRecord, {"kernel", "c_no_record", true}},
    {Drop::kKernelNativeNoLock, {"kernel", "c_no_lock", true}},
    {Drop::kDecodeTooShort, {"decode", "too_short"}},
    {Drop::kDecodeBadKind, {"decode", "bad_kind"}},
    {Drop::kDecodeBadCount, {"decode", "bad_count"}},
    {Drop::kDecodeBadRecord, {"decode", "bad_record"}},
    {Drop::kDecodeBadCounters, {"decode", "bad_counters"}},
    {Drop::kPairNoCapture, {"pair", "no_capture"}},
    {Drop::kPairUnusedCapture, {"pair", "unused_capture", true}},
    {Drop::kPairQueueFull, {"pair", "queue_full"}},
    {Drop::kPairUnknownStack, {"pair", "unknown_stack"}},
    {Drop::kPairBrokenStack, {"pair", "broken_stack"}},
    {Drop::kFollowLostRecords, {"follow", "lost_records"}},
    {Drop::kFollowUnknownSample, {"follow", "unknown_sample", true}},
    {Drop::kFollowLiveSetFull, {"follow", "live_set_full", true}},
    {Drop::kFollowSessionEnd, {"follow", "session_end", true}},
    {Drop::kFollowStaleSession, {"follow", "stale_session", true}},
    {Drop::kFollowNotMadeUp, {"follow", "not_made_up", true}},
    {Drop::kFollowNativeFreeMissed, {"follow", "c_free_missed", true}},
    {Drop::kFollowCallstacksCut, {"follow", "callstacks_cut"}},
    {Drop::kFollowCallstacksFull, {"follow", "callstacks_full"}},
    {Drop::kFollowClassesCut, {"follow", "classes_cut", true}},
    {Drop::kFollowClassesFull, {"follow", "classes_full"}},
    {Drop::kAgentDomainInUse, {"agent", "domain_in_use"}},
    {Drop::kAgentDomainsFull, {"agent", "domains_full"}},
    {Drop::kAgentStoppedByProgram, {"agent", "stopped_by_program"}},
    {Drop::kAgentNativeBlocksFull, {"agent", "c_blocks_full"}},
    {Drop::kAgentCallstackMoved, {"agent", "callstack_moved", true}},
    {Drop::kAgentCallstackCut, {"agent", "callstack_cut"}},
    {Drop::kAgentUncertainDeath, {"agent", "uncertain_death", true}},
    {Drop::kDiscoverMemoryFull, {"discover", "memory_full"}},
    {Drop::kSymbolizeMemoryFull, {"symbolize", "memory_full"}},
}};
// clang-format on

constexpr bool rows_are_in_order() {
  for (int i = 0; i < kDrops; ++i) {
    if (kRows[i].drop != static_cast<Drop>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "each Drop has one row in kRows, in the order of Drop");

}  // namespace

DropName drop_name(Drop drop) { return kRows[static_cast<int>(drop)].name; }

std::uint64_t DropCounters::sum(bool given_up) const {
  std::uint64_t result = 0;
  for (int i = 0; i < kDrops; ++i) result += kRows[i].name.given_up == given_up ? counts_[i] : 0;
  return result;
}

}  // namespace memprofd
