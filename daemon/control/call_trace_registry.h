// SPDX-License-Identifier: Apache-2.0
// Traces calls of programs on request: at most one trace per program at a time, and few in total.
#pragma once

#include <functional>
#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "daemon/calls/call_trace.h"
#include "daemon/model/requested_process.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

// Thread-safe.
class CallTraceRegistry {
 public:
  // Traces at once: each has a map of counts and its probes.
  static constexpr std::size_t kMaxTraces = 8;

  // Inspects the program in a thread of its own, with the time limit of any inspection. The trace
  // holds its place until it is destroyed, and may outlive this. kAlreadyExists: another trace of
  // the program runs; kResourceExhausted: too many run; otherwise the errors of discover_target(),
  // CallTrace::start() and check_is_meant().
  absl::StatusOr<std::shared_ptr<CallTrace>> start(const RequestedProcess& process,
                                                   const CallsRequest& request);

 private:
  struct RunningTraces {
    UserSlots free{kMaxTraces, "traces of calls run"};
    Mutex mutex;
    std::set<int> pids ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<RunningTraces> running_ = std::make_shared<RunningTraces>();
};

}  // namespace memprofd
