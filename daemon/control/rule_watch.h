// SPDX-License-Identifier: Apache-2.0
// Periodically checks the rules of a file (rules/memory_rule.h) on all targets, in a thread of its
// own. A broken rule is logged and recorded in the book, for metrics and heap snapshots.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/snapshot.h"
#include "daemon/rules/rule_book.h"
#include "daemon/util/periodic_thread.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

struct RuleWatchOptions {
  std::string file;
  bool takes_snapshots = false;  // otherwise rules must not request any
  std::chrono::milliseconds interval{10'000};
};

class RuleWatch {
 public:
  // source outlives it. kInvalidArgument: the file is invalid.
  static absl::StatusOr<std::unique_ptr<RuleWatch>> open(SnapshotSource& source,
                                                         RuleWatchOptions options,
                                                         std::shared_ptr<RuleBook> book);
  RuleWatch(const RuleWatch&) = delete;
  RuleWatch& operator=(const RuleWatch&) = delete;

  // Reads the file again; an error leaves the rules as they were. Any thread.
  absl::Status reload();

 private:
  // chance: probability that a program which just keeps its limit is reported by one check; there
  // are 8,640 checks a day.
  static constexpr RuleCheck kCheck{.chance = 1e-6, .running = true};
  // The search for leaks reads the history several times, so it runs once per this many checks.
  static constexpr std::uint64_t kGrowthTurns = 6;

  RuleWatch(SnapshotSource& source, RuleWatchOptions options, std::shared_ptr<RuleBook> book,
            std::vector<MemoryRule> rules);
  static absl::StatusOr<std::vector<MemoryRule>> read(const RuleWatchOptions& options);
  void check_all();
  void check(const ProfileSnapshot& target, const MemoryRule& rule);

  SnapshotSource& source_;
  const RuleWatchOptions options_;
  const std::shared_ptr<RuleBook> book_;
  Mutex mutex_;
  std::vector<MemoryRule> rules_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t turns_ = 0;  // checks so far; used by thread_
  PeriodicThread thread_;
};

}  // namespace memprofd
