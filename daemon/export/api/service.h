// SPDX-License-Identifier: Apache-2.0
// The interface of the daemon to its servers. Implemented by Daemon (and by a fake in unit tests);
// every call may come from any thread.
//
// A call for an RequestedProcess fails with the error of check_is_meant() if the target or the
// inspected process is a different one, or belongs to another user.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/calls/call_trace.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/model/control.h"
#include "daemon/model/discovery.h"
#include "daemon/model/requested_process.h"
#include "daemon/model/target_info.h"
#include "daemon/rss/rss_report.h"
#include "daemon/values/published_control.h"
#include "daemon/values/published_request.h"
#include "daemon/values/read_values.h"

namespace memprofd {

struct PublishedValues {
  int pid = 0;
  absl::StatusOr<ValuesAnswer> answer;
};

class ProfilerService : public SnapshotSource {
 public:
  // Fresh snapshots. They are written to the state first, so that reported counts do not fall if
  // memprofd is killed.
  virtual std::vector<ProfileSnapshotPtr> lasting_snapshots() { return snapshots(); }
  // The start time of the process that has the pid now, in clock ticks since boot. kNotFound: there
  // is none.
  virtual absl::StatusOr<std::uint64_t> process_start_ticks(int pid) = 0;
  // Returns when sampling runs, or when it only waits for an idle target.
  virtual absl::StatusOr<TargetInfo> attach(const AttachRequest& request) = 0;
  virtual absl::Status detach(const RequestedProcess& process) = 0;
  // rate in samples per word, 0 < rate <= 1.
  virtual absl::Status set_rate(const RequestedProcess& process, const RateRequest& request) = 0;
  // Returns when the snapshot is complete, or with the reason why there is none (take_heap()).
  virtual absl::StatusOr<HeapSummary> take_heap(const HeapRequest& request,
                                                const HeapClient& client) = 0;
  // Reads module values of a target, in any mode; wanted: whether a client still waits
  // (values/read_values.h).
  virtual absl::StatusOr<ValuesAnswer> read_values(const RequestedProcess& process,
                                                   const ValuesRequest& request,
                                                   const std::function<bool()>& wanted) = 0;
  // Like read_values(), for each target that publishes values or of which values are kept. All of
  // them are read at the same time.
  virtual std::vector<PublishedValues> read_published(const ValuesRequest& request) = 0;
  // pid 0: kernel and privileges only.
  virtual std::vector<Finding> diagnose(const RequestedProcess& process) = 0;
  // Breaks down the resident memory of any program, with the errors of memprofd::account_rss().
  virtual absl::StatusOr<RssReport> account_rss(const RequestedProcess& process,
                                                RssOptions options) = 0;
  // Counts calls of functions of any program, for as long as the trace exists, with the errors of
  // CallTraceRegistry::start().
  virtual absl::StatusOr<std::shared_ptr<CallTrace>> trace_calls(const RequestedProcess& process,
                                                                 const CallsRequest& request) = 0;
  virtual SelfStats self_stats() = 0;
  // Results of the last search for programs, without facts about targets (history/discoveries.h).
  virtual Discoveries discovered() { return {}; }
  // Resumes all threads that wait in a pause of Memprof_values; returns their number.
  // kFailedPrecondition: the target publishes no values.
  virtual absl::StatusOr<std::uint32_t> resume(const RequestedProcess& process) = 0;
  // Turns published values off or on, or changes their period; returns their number. Errors as for
  // control_report(); kFailedPrecondition: the target publishes no values.
  virtual absl::StatusOr<std::uint32_t> adjust(const RequestedProcess& process,
                                               const PublishedControl& control) = 0;
  // Selects module values to keep over time; returns the names of all that are kept. Errors as for
  // memprofd::keep_values().
  virtual absl::StatusOr<std::vector<std::string>> keep_values(const RequestedProcess& process,
                                                               const KeepRequest& request) = 0;
  // Runs an action that the target has registered, with the errors of ask_report().
  virtual absl::StatusOr<RequestAnswer> ask(const RequestedProcess& process,
                                            const PublishedRequest& request,
                                            const std::function<bool()>& wanted) = 0;
};

}  // namespace memprofd
