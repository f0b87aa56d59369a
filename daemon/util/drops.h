// SPDX-License-Identifier: Apache-2.0
// Every way in which the daemon may lose data, by stage and reason. Deliberate omissions, and
// consequences of these or of another loss, are counted apart, because they are not errors.
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
  // A hit in observe mode; the next hit also counts its words.
  kKernelObservedRingFull = MEMPROF_DROP_OBSERVED_RING_FULL,
  // A child beyond the limit; its own children are not followed.
  kKernelChildrenFull = MEMPROF_DROP_CHILDREN_FULL,
  kKernelNativeEventLost = MEMPROF_DROP_C_EVENT_LOST,
  kKernelNativeStackLost = MEMPROF_DROP_C_STACK_LOST,
  // Samples of the native heap whose callstack is uncertain; counted without a callstack.
  kKernelNativeNoRecord = MEMPROF_DROP_C_NO_RECORD,
  kKernelNativeNoLock = MEMPROF_DROP_C_NO_LOCK,
  // Decoding ring buffer bytes.
  kDecodeTooShort = MEMPROF_KERNEL_DROPS,
  kDecodeBadKind,
  kDecodeBadCount,
  kDecodeBadRecord,
  kDecodeBadCounters,  // inconsistent counters of a domain; they become its new baseline
  // Pairing captures with samples.
  kPairNoCapture,      // sample counted with an unknown callstack
  kPairUnusedCapture,  // capture discarded, because its callback never came
  kPairQueueFull,
  kPairUnknownStack,  // stack id whose frames were never received
  kPairBrokenStack,   // callstack that ended at code of no frame table, so outer frames are missing
  // Following blocks.
  kFollowLostRecords,       // hole in the agent's record numbers
  kFollowUnknownSample,     // promote or dealloc of a block not followed
  kFollowLiveSetFull,       // block counted as allocated but not followed
  kFollowSessionEnd,        // live block no longer followed: sampling restarted
  kFollowStaleSession,      // record of an earlier session that is not followed
  kFollowNotMadeUp,         // lost allocation that no other allocation makes up for
  kFollowNativeFreeMissed,  // native block found gone without its free having been seen
  kFollowCallstacksCut,     // callstack table full; outer frames omitted
  kFollowCallstacksFull,    // callstack table full; counted under "unknown"
  kFollowClassesCut,   // allocation class table almost full; counted without thread, or with fewer
                       // properties
  kFollowClassesFull,  // allocation class table full; counted under "unknown"
  // Agent in the target; the agent counts these.
  kAgentDomainInUse,       // domain not sampled, because the program itself uses Gc.Memprof there
  kAgentDomainsFull,       // domain not sampled, because the session has too many
  kAgentStoppedByProgram,  // samples missed after the program called Gc.Memprof.stop, until
                           // sampling restarted
  kAgentNativeBlocksFull,  // native sample discarded: too many sampled native blocks are live
  kAgentCallstackMoved,    // sample counted with an unknown callstack: the runtime had already left
                           // it
  kAgentCallstackCut,    // sample with only its innermost frame: the agent could not read the stack
  kAgentUncertainDeath,  // block counted as dead in a minor heap, although it may be live: no
                         // information
  // Inspection of the program, its files and its plugins.
  kDiscoverMemoryFull,  // frame descriptor, function or symbol omitted: memory limit reached
  // Names of code.
  kSymbolizeMemoryFull,  // frame shown as an address or as unknown: memory limit reached
  kCount,
};
inline constexpr int kDrops = static_cast<int>(Drop::kCount);

struct DropName {
  std::string_view stage;   // kernel, decode, pair, follow, agent, discover, symbolize
  std::string_view reason;  // snake_case
  bool given_up = false;    // not a loss by itself
};
DropName drop_name(Drop drop);

// Explains kAgentDomainInUse to a user.
inline constexpr char kDomainInUseText[] =
    "allocations are missing from the time in which the program used Gc.Memprof itself";

class DropCounters {
 public:
  void add(Drop drop, std::uint64_t n = 1) { counts_[static_cast<int>(drop)] += n; }
  void set(Drop drop, std::uint64_t n) { counts_[static_cast<int>(drop)] = n; }
  DropCounters& operator+=(const DropCounters& other) {
    for (int i = 0; i < kDrops; ++i) counts_[i] += other.counts_[i];
    return *this;
  }
  std::uint64_t get(Drop drop) const { return counts_[static_cast<int>(drop)]; }
  // Sums of the losses and of the deliberate omissions.
  std::uint64_t lost() const { return sum(false); }
  std::uint64_t given_up() const { return sum(true); }
  std::uint64_t total() const { return lost() + given_up(); }

 private:
  std::uint64_t sum(bool given_up) const;

  std::array<std::uint64_t, kDrops> counts_{};
};

}  // namespace memprofd
