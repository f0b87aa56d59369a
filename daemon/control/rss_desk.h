// SPDX-License-Identifier: Apache-2.0
// Gives out where programs' memory is, not more often than is good for them: to look at many
// mappings keeps a program from changing them for some milliseconds a GB.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/rss/rss_report.h"

namespace memprofd {

// Thread-safe.
class RssDesk {
 public:
  // Looks at once.
  static constexpr int kMaxLooks = 2;
  // An answer that is younger is given again.
  static constexpr std::chrono::seconds kFresh{1};

  // Waits for a thread of its own that looks, at most as long as for any look.
  absl::StatusOr<RssReport> ask(int pid, RssOptions options);

 private:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    RssReport report;
    Clock::time_point made;
  };
  static absl::StatusOr<RssReport> look(int pid, RssOptions options);

  std::mutex mutex_;
  std::map<std::pair<int, bool>, Answer> answers_;  // fresh ones, by pid and with owners
  int looks_ = 0;
};

}  // namespace memprofd
