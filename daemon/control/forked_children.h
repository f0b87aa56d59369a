// SPDX-License-Identifier: Apache-2.0
// Children of targets that are to become targets, from the fork until they have been inspected.
// Owned by the control thread.
//
// Many children run a command or end at once. A child that still exists after a moment, and still
// runs its parent's program, is likely to stay.
//
// A requested target and all its descendants are a family. Each family has a queue, a share of
// targets and one inspection at a time, and families take turns. A program that forks without end,
// or whose children take long to inspect, delays only its own family.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "daemon/discover/proc_fs.h"
#include "daemon/model/requested_process.h"

namespace memprofd {

struct ForkedChild {
  int pid = 0;
  int parent = 0;           // the target
  std::string exe;          // the target's program
  double rate = 0;          // the requested rate
  double max_overhead = 0;  // its budget, 0: none
  std::chrono::steady_clock::time_point seen_at;
};

class ForkFamily {
 public:
  static constexpr std::size_t kMaxWaiting = 1024;
  static constexpr int kMaxFollowed = 64;  // children that are targets at the same time
  // Inspections that may be given up. Each may keep a thread for ever, of which there are few
  // (inspection.h).
  static constexpr int kMaxGivenUp = 2;

  // user: the user who requested the first of them and must own all of them; nullopt: any owner.
  explicit ForkFamily(std::optional<ProcessUser> user = std::nullopt) : user_(user) {}

  const std::optional<ProcessUser>& user() const { return user_; }
  bool given_up() const { return given_up_ >= kMaxGivenUp; }

 private:
  friend class ForkedChildren;
  bool in_use() const { return inspected_.has_value() || !waiting_.empty(); }

  const std::optional<ProcessUser> user_;
  std::deque<ForkedChild> waiting_;  // oldest first
  std::optional<ForkedChild> inspected_;
  int given_up_ = 0;
};

// Shared by the targets of the family.
using ForkFamilyPtr = std::shared_ptr<ForkFamily>;

class ForkedChildren {
 public:
  static constexpr std::chrono::milliseconds kPatience{100};
  static constexpr int kMaxInspections = 8;  // at the same time, for all families

  // proc: a fake tree in tests.
  explicit ForkedChildren(ProcFs proc = ProcFs()) : proc_(std::move(proc)) {}

  // Returns false if too many children of the family are already waiting.
  bool add(const ForkFamilyPtr& family, ForkedChild child);
  // The next child that is due and still runs its parent's program, of the family whose turn it is.
  // It counts as being inspected until inspection_over(). Drops children that have ended or run
  // another program.
  std::optional<std::pair<ForkFamilyPtr, ForkedChild>> next(
      std::chrono::steady_clock::time_point now);
  // The inspection of a child has ended, or was abandoned. Any other pid is ignored.
  void inspection_over(int pid, bool given_up);
  // True if children of this parent wait or are being inspected.
  bool any_of(int parent) const;
  // True if children wait.
  bool waiting() const;

 private:
  std::optional<ForkedChild> take(ForkFamily& family, std::chrono::steady_clock::time_point now);
  int inspections() const;

  ProcFs proc_;
  std::list<ForkFamilyPtr> families_;  // those in use, the next in turn first
};

// Children of one target that are not followed. A program may fork at any rate: the first child for
// each reason is logged, all are counted, and the sum is logged at the target's end.
class SkippedChildren {
 public:
  enum Reason { kTooManyForks, kTooManyFollowed, kTooManyInspections, kRefused, kReasons };

  // Counts a child. Returns true if it is the first for this reason.
  bool add(Reason reason) { return counts_[reason]++ == 0; }
  // Number of programs that were not logged when they appeared.
  std::uint64_t not_logged() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, std::uint64_t n) { return sum + (n - (n != 0)); });
  }

 private:
  std::array<std::uint64_t, kReasons> counts_{};
};

// True if this process sees pids as the kernel counts them.
bool in_initial_pid_namespace();

}  // namespace memprofd
