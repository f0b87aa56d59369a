// SPDX-License-Identifier: Apache-2.0
// Reads periodically how much of the sampled native blocks is resident, and which of them have
// ended unseen (daemon/rss/residency_scan.h). A thread of its own schedules this. Another thread
// does each reading, because it may hang in a file of the program, and nothing waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/control/inspection.h"
#include "daemon/discover/target_memory.h"
#include "daemon/model/native_block.h"
#include "daemon/util/periodic_thread.h"

namespace memprofd {

// A target whose native heap is profiled.
struct ResidencyTarget {
  int pid = 0;
  std::shared_ptr<const TargetMemory> memory;
  std::function<std::vector<NativeBlock>()> blocks;  // returns the live blocks; may wait briefly
  std::function<void(ResidencyScan)> keep;
};

class ResidencyScanner {
 public:
  // Minimum time between two readings of a target, and the same as a multiple of the CPU time of a
  // reading. CPU time does not include waiting, so a busy machine does not stop the readings.
  static constexpr std::chrono::seconds kInterval{5};
  static constexpr int kRest = 200;

  // list: returns the current targets; called by the thread.
  explicit ResidencyScanner(std::function<std::vector<ResidencyTarget>()> list);
  ResidencyScanner(const ResidencyScanner&) = delete;
  ResidencyScanner& operator=(const ResidencyScanner&) = delete;
  void stop() { thread_.stop(); }

  static std::chrono::nanoseconds rest_after(std::chrono::nanoseconds cpu_time);

 private:
  using Clock = std::chrono::steady_clock;
  struct Scan {
    ResidencyScan blocks;
    std::chrono::nanoseconds cpu_time{};
  };
  struct Watched {
    std::optional<Inspection<Scan>> check;  // current scan
    Clock::time_point next;
  };
  void check();
  void advance_scan(const ResidencyTarget& target, Watched& watched);
  static void begin_inspection(const ResidencyTarget& target, Watched& watched);

  const std::function<std::vector<ResidencyTarget>()> list_;
  std::map<int, Watched> watched_;  // by pid
  PeriodicThread thread_;
};

}  // namespace memprofd
