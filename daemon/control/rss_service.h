// SPDX-License-Identifier: Apache-2.0
// Answers queries about resident memory, at a limited rate: reading many mappings prevents the
// program from changing them for some milliseconds per GB.
#pragma once

#include <chrono>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/control/inspection.h"
#include "daemon/model/requested_process.h"
#include "daemon/rss/rss_report.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

// Thread-safe.
class RssService {
 public:
  // Maximum number of simultaneous inspections.
  static constexpr std::size_t kMaxInspections = 4;
  // Younger answers are reused.
  static constexpr std::chrono::seconds kFresh{1};

  // Inspects the process in another thread and waits for it, within the time limit of any
  // inspection. The same question of the same user meanwhile gets the same answer.
  absl::StatusOr<RssReport> ask(const RequestedProcess& process, RssOptions options);

 private:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    RequestedProcess process;  // as requested, because other users may not get the answer
    bool owners = false;
    RssReport report;
    Clock::time_point made;
  };
  Mutex mutex_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);  // fresh ones
  UserSlots slots_{kMaxInspections, "questions about programs' memory are being answered"};
  JoinedInspections<std::pair<RequestedProcess, bool>, absl::StatusOr<RssReport>> inspections_;
};

}  // namespace memprofd
