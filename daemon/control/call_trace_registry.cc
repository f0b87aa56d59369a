// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/call_trace_registry.h"

#include <fmt/core.h>

#include <utility>

#include "daemon/control/inspection.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using Started = absl::StatusOr<std::shared_ptr<CallTrace>>;

Started inspect_and_start(const RequestedProcess& process, const CallsRequest& request,
                          const std::stop_token& stop) {
  ASSIGN_OR_RETURN(Target target, discover_target(process.pid, "/proc", stop));
  RETURN_IF_ERROR(check_is_meant(process, target.start_time_ticks, target.owner));
  ASSIGN_OR_RETURN(std::unique_ptr<CallTrace> trace, CallTrace::start(std::move(target), request));
  return std::shared_ptr<CallTrace>(std::move(trace));
}

}  // namespace

absl::StatusOr<std::shared_ptr<CallTrace>> CallTraceRegistry::start(const RequestedProcess& process,
                                                                    const CallsRequest& request) {
  const int pid = process.pid;
  ASSIGN_OR_RETURN(UserSlots::Slot of_user, running_->free.take(ScopedUser::current()));
  {
    const MutexLock lock(running_->mutex);
    if (!running_->pids.insert(pid).second) {
      return absl::ResourceExhaustedError(fmt::format(
          "calls of pid {} are being traced already: end that first, or wait for its end", pid));
    }
  }
  const std::shared_ptr<void> slot(nullptr,
                                   [traces = running_, pid, of_user = std::move(of_user)](void*) {
                                     const MutexLock lock(traces->mutex);
                                     traces->pids.erase(pid);
                                   });
  // Inspects on another thread, so that memprofd does not hang if a file of the program does.
  ASSIGN_OR_RETURN(Started started,
                   inspect_in_time<Started>(pid, [process, request](const std::stop_token& stop) {
                     return inspect_and_start(process, request, stop);
                   }));
  ASSIGN_OR_RETURN(std::shared_ptr<CallTrace> trace, std::move(started));
  // Members are destroyed in reverse order: probes first, then the slot.
  struct HeldTrace {
    std::shared_ptr<void> slot;
    std::shared_ptr<CallTrace> trace;
  };
  CallTrace* const running = trace.get();
  return std::shared_ptr<CallTrace>(std::make_shared<HeldTrace>(HeldTrace{slot, std::move(trace)}),
                                    running);
}

}  // namespace memprofd
