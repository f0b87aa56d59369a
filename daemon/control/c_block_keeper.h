// SPDX-License-Identifier: Apache-2.0
// Reads periodically how much of the sampled native blocks is resident, and which of them have
// ended unseen (daemon/rss/c_block_look.h). A thread of its own schedules this. Each reading, which
// may hang in a file of the program, has another thread, for which nothing waits.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/control/look.h"
#include "daemon/discover/target_memory.h"
#include "daemon/model/c_block.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// A target of which C's memory is followed.
struct CBlockTarget {
  int pid = 0;
  std::shared_ptr<const TargetMemory> memory;
  std::function<std::vector<CBlockPlace>()> blocks;  // that live; may wait a moment
  std::function<void(CBlockLook)> keep;
};

class CBlockKeeper {
 public:
  // Minimum time between two readings of a target, and the same as a multiple of the reading's own
  // time.
  static constexpr std::chrono::seconds kInterval{5};
  static constexpr int kRest = 200;

  // list: those that there are now; called by the thread.
  explicit CBlockKeeper(std::function<std::vector<CBlockTarget>()> list);
  ~CBlockKeeper() { stop(); }
  CBlockKeeper(const CBlockKeeper&) = delete;
  CBlockKeeper& operator=(const CBlockKeeper&) = delete;
  void stop();

  static std::chrono::nanoseconds rest_after(std::chrono::nanoseconds took);

 private:
  using Clock = std::chrono::steady_clock;
  struct Found {
    CBlockLook blocks;
    std::chrono::nanoseconds took{};
  };
  struct Watched {
    std::optional<Look<Found>> look;  // that is under way
    Clock::time_point next;
  };
  void run();
  void look();
  void see_to(const CBlockTarget& target, Watched& watched);
  static void begin_look(const CBlockTarget& target, Watched& watched);

  const std::function<std::vector<CBlockTarget>()> list_;
  std::map<int, Watched> watched_;  // by pid
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
