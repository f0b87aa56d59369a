// SPDX-License-Identifier: Apache-2.0
// Every way in which the daemon may lose something, by stage and reason. What it gives up
// on purpose, and what follows from that or from another loss, is counted apart: nothing
// went wrong then.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bpf/events.h"

namespace memprofd {

enum class Drop {
  // Kernel; read from the BPF map.
  kKernelCaptureRingFull = MEMPROF_DROP_CAPTURE_RING_FULL,
  kKernelCaptureScratchBusy = MEMPROF_DROP_CAPTURE_SCRATCH_BUSY,
  kKernelCaptureNoState = MEMPROF_DROP_CAPTURE_NO_STATE,
  kKernelBatchRingFull = MEMPROF_DROP_BATCH_RING_FULL,
  kKernelBatchBadCount = MEMPROF_DROP_BATCH_BAD_COUNT,
  kKernelBatchUnreadable = MEMPROF_DROP_BATCH_UNREADABLE,
  kKernelLifecycleRingFull = MEMPROF_DROP_LIFECYCLE_RING_FULL,
  kKernelObservedNoState = MEMPROF_DROP_OBSERVED_NO_STATE,
  // A hit in observe mode; the next one stands for its words too.
  kKernelObservedRingFull = MEMPROF_DROP_OBSERVED_RING_FULL,
  // A child among too many: its own children are left alone.
  kKernelChildrenFull = MEMPROF_DROP_CHILDREN_FULL,
  kKernelNativeEventLost = MEMPROF_DROP_C_EVENT_LOST,
  kKernelNativeStackLost = MEMPROF_DROP_C_STACK_LOST,
  // Samples of C's memory whose callstack is not certain; counted without one.
  kKernelNativeNoRecord = MEMPROF_DROP_C_NO_RECORD,
  kKernelNativeNoLock = MEMPROF_DROP_C_NO_LOCK,
  // Decoding ring buffer bytes.
  kDecodeTooShort = MEMPROF_KERNEL_DROPS,
  kDecodeBadKind,
  kDecodeBadCount,
  kDecodeBadRecord,
  kDecodeBadCounters,  // a domain's counters make no sense; they are taken as a new beginning
  // Pairing captures with samples.
  kPairNoCapture,      // sample counted, its callstack unknown
  kPairUnusedCapture,  // capture discarded, its callback never came
  kPairQueueFull,
  kPairUnknownStack,  // stack id whose frames were never received
  kPairBrokenStack,   // callstack that ended at code of no frame table, its outer frames missing
  // Following blocks.
  kFollowLostRecords,       // hole in the agent's record numbers
  kFollowUnknownSample,     // promote or dealloc of a block not followed
  kFollowLiveSetFull,       // block counted as allocated but not followed
  kFollowSessionEnd,        // live block no longer followed: sampling restarted
  kFollowStaleSession,      // record of an earlier session that is not followed
  kFollowNotMadeUp,         // lost allocation that no other counts for
  kFollowNativeFreeMissed,  // block of C's memory that was found gone; its free was not seen
  kFollowCallstacksCut,     // callstack table full; outer frames left out
  kFollowCallstacksFull,    // callstack table full; counted under "unknown"
  kFollowClassesCut,        // allocation class table fills; counted without thread, or more
  kFollowClassesFull,       // allocation class table full; counted under "unknown"
  // The agent in the target; as it counts them.
  kAgentDomainInUse,       // a domain in which the program uses Gc.Memprof itself: not sampled
  kAgentDomainsFull,       // a domain among too many in one session: not sampled
  kAgentStoppedByProgram,  // samples until sampling began again: the program called Gc.Memprof.stop
  kAgentNativeBlocksFull,  // sample of C's memory that was given up: too many of its blocks live
  kAgentCallstackMoved,    // sample counted, its callstack unknown: the runtime had left it behind
  kAgentCallstackCut,      // sample with its innermost frame alone: the agent did not see its stack
  kAgentUncertainDeath,    // block counted as dead in a minor heap that may live: no information
  // Looking at the program, its files and its plugins.
  kDiscoverMemoryFull,  // frame descriptor, function or symbol left out: no memory left for it
  // Names of code.
  kSymbolizeMemoryFull,  // frame shown as an address or as unknown: no memory left for its name
  kCount,
};
inline constexpr int kDrops = static_cast<int>(Drop::kCount);

struct DropName {
  std::string_view stage;   // kernel, decode, pair, follow, agent, discover, symbolize
  std::string_view reason;  // snake_case
  bool given_up = false;    // no loss of its own
};
DropName drop_name(Drop drop);

class DropCounters {
 public:
  void add(Drop drop, std::uint64_t n = 1) { counts_[static_cast<int>(drop)] += n; }
  void set(Drop drop, std::uint64_t n) { counts_[static_cast<int>(drop)] = n; }
  DropCounters& operator+=(const DropCounters& other) {
    for (int i = 0; i < kDrops; ++i) counts_[i] += other.counts_[i];
    return *this;
  }
  std::uint64_t get(Drop drop) const { return counts_[static_cast<int>(drop)]; }
  // Sums over losses, and over deliberate omissions.
  std::uint64_t lost() const { return sum(false); }
  std::uint64_t given_up() const { return sum(true); }
  std::uint64_t total() const { return lost() + given_up(); }

 private:
  std::uint64_t sum(bool given_up) const;

  std::array<std::uint64_t, kDrops> counts_{};
};

}  // namespace memprofd
