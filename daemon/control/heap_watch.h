// SPDX-License-Identifier: Apache-2.0
// Takes automatic heap snapshots of targets according to conditions (heap_rule.h) and broken rules
// (rules/rule_book.h). A thread of its own checks targets as any reader does. Another thread takes
// each snapshot, so that no program delays the others.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/attach/inject/heap_points.h"
#include "daemon/control/heap_rule.h"
#include "daemon/export/api/service.h"
#include "daemon/rules/rule_book.h"
#include "daemon/snapshot/file/heap_files.h"
#include "daemon/util/periodic_thread.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

struct HeapWatchOptions {
  std::vector<HeapRule> rules;
  HeapFilesOptions files;
  double max_pause_seconds = 0.05;
  // Minimum time between two attempts at a target, except at its end.
  double rest_seconds = 60;
  // Called for refusals that occur before the service is called.
  std::function<void(const absl::Status&)> count;
  // The points at which a target waits for a snapshot, for rules about points.
  std::function<absl::StatusOr<HeapPoints>(int pid)> points;
  std::shared_ptr<RuleBook> book = std::make_shared<RuleBook>();
  std::chrono::milliseconds interval{2000};  // between checks
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
  // Maximum number of simultaneous snapshots, for all programs; one per program.
  static constexpr std::size_t kMaxTaken = 8;
  // Time for which a program waits at a point for its snapshot, and for reaching a place where it
  // can be copied.
  static constexpr std::chrono::seconds kPointPatience{10};

  // A process: its pid may be another one's later.
  using Process = std::pair<int, std::uint64_t>;
  // A target while it is profiled.
  struct Watched {
    Process process;
    std::uint64_t attached_ns = 0;
    std::vector<HeapRuleState> rules;
    Clock::time_point not_before;
    std::string comm;
    std::string user;  // user of the program, in the form for UserSlots
    std::optional<HeapPoints> points;
    std::optional<WaitingPoint> point;  // point at which it was last seen waiting
    Clock::time_point waits_since;
  };
  // A snapshot that is being taken, by a thread of its own.
  struct Taking {
    Taking(int pid, std::uint64_t attached_ns, UserSlots::Slot slot)
        : pid(pid), attached_ns(attached_ns), slot(std::move(slot)) {}

    const int pid;
    const std::uint64_t attached_ns;
    UserSlots::Slot slot;
    std::vector<std::size_t> due;       // conditions that caused it
    std::optional<HeapPoints> points;   // points at which the program waits for it, if any
    std::optional<WaitingPoint> point;  // likewise
    absl::Status outcome;               // result, set by the thread until it ends
    std::atomic<bool> has_ended = false;
    std::thread thread;
  };

  // A turn; returns the time until the next one.
  std::chrono::nanoseconds run();
  void check();
  void inspect(const ProfileSnapshot& target, Watched& watched);
  void keep_points(int pid, Watched& watched) const;
  void inspect_points();
  void inspect_point(int pid, Watched& watched);
  // why: for the log.
  void refuse_point(int pid, Watched& watched, const std::string& why, const absl::Status& refused);
  // Begins to take a snapshot. Returns null if no place or thread is free. patience: time for the
  // program to reach a place where it can be copied; nullopt: the default.
  Taking* begin(int pid, Watched& watched, const std::string& why,
                std::optional<Clock::duration> patience);
  absl::Status take(int pid, const std::string& comm, std::optional<Clock::duration> patience,
                    std::string& done);
  bool is_taking(int pid) const;
  void collect();

  ProfilerService& service_;
  const HeapWatchOptions options_;
  const HeapFiles files_;
  const std::uint32_t point_kinds_;  // bits of memprof_point_kind
  UserSlots slots_{kMaxTaken, "snapshots are being taken by rules"};
  std::map<int, Watched> watched_;              // used by thread_
  std::set<Process> ended_;                     // likewise: programs that wait at their end
  std::list<std::unique_ptr<Taking>> takings_;  // likewise
  std::chrono::steady_clock::time_point next_inspection_;  // likewise
  PeriodicThread thread_;
};

}  // namespace memprofd
