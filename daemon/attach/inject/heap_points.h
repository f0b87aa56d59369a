// SPDX-License-Identifier: Apache-2.0
// Points at which a program waits for a snapshot of itself: where its code requests one, and at
// exit (agent-lib/snapshot_point.c). The program waits only while a client wants such snapshots,
// and for a few seconds at most. Without the privileges for a probe, a thread waits in the agent's
// callback for a sample of it, for a moment, until it is stopped by ptrace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "agent-lib/include/memprof_snapshot_abi.h"
#include "daemon/discover/target_memory.h"

namespace memprofd {

struct WaitingPoint {
  std::uint64_t number = 0;
  std::string name;  // as the program reports it
  bool at_exit = false;
};

// Waiting points of one program. Any thread may call it, one at a time.
class HeapPoints {
 public:
  // block: address of memprof_snapshot in the process.
  HeapPoints(std::shared_ptr<const TargetMemory> memory, std::uint64_t block)
      : memory_(std::move(memory)), block_(block) {}

  // Makes the program wait at points of these kinds (bits of memprof_point_kind) for kLeaseNs.
  absl::Status want(std::uint32_t kinds) const;
  static constexpr std::uint64_t kLeaseNs = 10'000'000'000;
  // The point at which the program waits now.
  std::optional<WaitingPoint> waiting() const;
  // Lets the program continue from that point.
  void answer(const WaitingPoint& point, bool is_taken) const;

 private:
  std::shared_ptr<const TargetMemory> memory_;
  std::uint64_t block_;
};

// The next sample of an allocation, as a point at which a thread with the runtime lock waits in the
// agent's code. Owned by one thread.
class SamplePoint {
 public:
  // block: address of memprof_sample_point in the process; hold: address of memprof_agent_hold.
  SamplePoint(std::shared_ptr<const TargetMemory> memory, std::uint64_t block, std::uint64_t hold)
      : memory_(std::move(memory)), block_(block), hold_(hold) {}

  // Makes the next thread wait, for MEMPROF_HOLD_NS at most.
  void want();
  // The thread that waits, in the program's namespace.
  std::optional<int> waiting() const;
  // Lets the thread continue, and no other one wait.
  void release() const;
  // True if a thread that is stopped there waits, and may be made to call a function.
  bool is_held_at(std::uint64_t instruction_pointer) const {
    return instruction_pointer >= hold_ && instruction_pointer < hold_ + MEMPROF_HOLD_BYTES;
  }

 private:
  std::shared_ptr<const TargetMemory> memory_;
  std::uint64_t block_, hold_;
  std::uint32_t number_ = 0;  // of the last request
};

}  // namespace memprofd
