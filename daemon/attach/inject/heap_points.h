// SPDX-License-Identifier: Apache-2.0
// Points at which a program waits for a snapshot of itself: where its code requests one, and at
// exit (agent-lib/snapshot_point.c). The program waits only while a client wants such snapshots,
// and for a few seconds at most.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
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

}  // namespace memprofd
