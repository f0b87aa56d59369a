// SPDX-License-Identifier: Apache-2.0
// Points at which a program waits for a snapshot of itself: where its code requests one, and at
// exit (agent-lib/snapshot_point.c). It waits only if a client wants those, some seconds at most.
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
  std::string name;  // as the program has it
  bool at_exit = false;
};

// One program's. Any thread, one at a time.
class HeapPoints {
 public:
  // block: address of memprof_snapshot in the process.
  HeapPoints(std::shared_ptr<const TargetMemory> memory, std::uint64_t block)
      : memory_(std::move(memory)), block_(block) {}

  // Has it wait at points of these kinds (bits of memprof_point_kind), for kLeaseNs.
  absl::Status want(std::uint32_t kinds) const;
  static constexpr std::uint64_t kLeaseNs = 10'000'000'000;
  // The point at which the program waits now.
  std::optional<WaitingPoint> waiting() const;
  // It need not wait there any more.
  void answer(const WaitingPoint& point, bool is_taken) const;

 private:
  std::shared_ptr<const TargetMemory> memory_;
  std::uint64_t block_;
};

}  // namespace memprofd
