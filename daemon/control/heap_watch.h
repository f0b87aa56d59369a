// SPDX-License-Identifier: Apache-2.0
// Takes snapshots of targets' heaps by itself, when rules say so (heap_rule.h), one at a time: a
// thread of its own, which looks at targets as any reader does.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/attach/inject/heap_points.h"
#include "daemon/control/heap_rule.h"
#include "daemon/export/api/service.h"
#include "daemon/snapshot/file/heap_files.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

struct HeapWatchOptions {
  std::vector<HeapRule> rules;
  HeapFilesOptions files;
  double max_pause_seconds = 0.05;
  // From one attempt at a target to the next, but for that at its end.
  double rest_seconds = 60;
  // Told of what is refused before the service is asked.
  std::function<void(const absl::Status&)> count;
  // Where a target waits for a snapshot, when a rule is about that.
  std::function<absl::StatusOr<HeapPoints>(int pid)> points;
  std::chrono::milliseconds interval{2000};  // of looks
};

class HeapWatch {
 public:
  // service outlives it.
  HeapWatch(ProfilerService& service, HeapWatchOptions options);
  HeapWatch(const HeapWatch&) = delete;
  HeapWatch& operator=(const HeapWatch&) = delete;
  ~HeapWatch();

 private:
  using Clock = std::chrono::steady_clock;
  // One target, as long as it is profiled.
  struct Watched {
    std::uint64_t attached_ns = 0;
    std::vector<HeapRuleState> rules;
    Clock::time_point not_before;
    std::string comm;
    std::optional<HeapPoints> points;
  };

  void run();
  void look();
  void look_at(const TargetSnapshot& target, Watched& watched);
  void keep_points(int pid, Watched& watched) const;
  void look_at_points();
  absl::Status take_at(const WaitingPoint& point, int pid, Watched& watched);
  // why: as the log has it.
  absl::Status try_to_take(int pid, Watched& watched, const std::string& why);
  absl::Status take(int pid, const std::string& comm, std::string& done);

  ProfilerService& service_;
  const HeapWatchOptions options_;
  const HeapFiles files_;
  const std::uint32_t point_kinds_;  // bits of memprof_point_kind
  std::map<int, Watched> watched_;   // of thread_
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
