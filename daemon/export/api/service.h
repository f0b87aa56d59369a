// SPDX-License-Identifier: Apache-2.0
// What the servers ask of the rest of the daemon. Implemented by Daemon (and by
// a fake in unit tests); every call may come from any thread.
//
// A call for an AskedProcess fails as check_is_meant() has it when the target, or what is looked
// at, is another process than that, or not the user's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/calls/call_trace.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/model/asked_process.h"
#include "daemon/model/control.h"
#include "daemon/model/discovery.h"
#include "daemon/rss/rss_report.h"
#include "daemon/values/read_values.h"
#include "daemon/values/report_control.h"
#include "daemon/values/report_request.h"

namespace memprofd {

class ProfilerService : public SnapshotSource {
 public:
  // Fresh snapshots, which the next memprofd will know of: what is told of them is not taken back
  // when this one is killed.
  virtual std::vector<TargetSnapshotPtr> lasting_snapshots() { return snapshots(); }
  // When the process that has the pid now began, in clock ticks since boot. kNotFound: none has it.
  virtual absl::StatusOr<std::uint64_t> process_start_ticks(int pid) = 0;
  // Returns when sampling runs or, for an idle target, when it waits for it.
  virtual absl::StatusOr<TargetInfo> attach(const AttachRequest& request) = 0;
  virtual absl::Status detach(const AskedProcess& process) = 0;
  // rate in samples per word, 0 < rate <= 1.
  virtual absl::Status set_rate(const AskedProcess& process, const RateRequest& request) = 0;
  // Returns when the snapshot is complete, or with why there is none (take_heap()).
  virtual absl::StatusOr<HeapSummary> take_heap(const HeapRequest& request,
                                                const HeapClient& client) = 0;
  // Reads what modules of a target hold, in any mode; wanted: whether somebody still waits
  // (values/read_values.h).
  virtual absl::StatusOr<ValuesAnswer> read_values(const AskedProcess& process,
                                                   const ValuesRequest& request,
                                                   const std::function<bool()>& wanted) = 0;
  // pid 0: kernel and privileges only.
  virtual std::vector<Finding> diagnose(const AskedProcess& process) = 0;
  // Where the resident memory of a program is, a target or not; errors as of
  // memprofd::account_rss().
  virtual absl::StatusOr<RssReport> account_rss(const AskedProcess& process,
                                                RssOptions options) = 0;
  // Counts calls of a program's functions, a target or not, for as long as the trace lives; errors
  // as of CallDesk::start().
  virtual absl::StatusOr<std::shared_ptr<CallTrace>> trace_calls(const AskedProcess& process,
                                                                 const CallsRequest& request) = 0;
  virtual SelfStats self_stats() = 0;
  // What the search for programs has found last, without what is known of targets
  // (history/discoveries.h).
  virtual Discoveries discovered() { return {}; }
  // Has all threads go on that wait in a pause of Memprof_values. How many did.
  // kFailedPrecondition: the target says nothing of itself.
  virtual absl::StatusOr<std::uint32_t> resume(const AskedProcess& process) = 0;
  // Switches observations that the target names off or on, or changes their period; how many.
  // Errors as of control_report(); kFailedPrecondition: the target says nothing of itself.
  virtual absl::StatusOr<std::uint32_t> adjust(const AskedProcess& process,
                                               const ReportControl& control) = 0;
  // Chooses values of modules that are kept over time; the names of all that are. Errors as of
  // memprofd::keep_values().
  virtual absl::StatusOr<std::vector<std::string>> keep_values(const AskedProcess& process,
                                                               const KeepRequest& request) = 0;
  // Has the target do what it answers by a name; errors as of ask_report().
  virtual absl::StatusOr<RequestAnswer> ask(const AskedProcess& process,
                                            const ReportRequest& request,
                                            const std::function<bool()>& wanted) = 0;
};

}  // namespace memprofd
