// SPDX-License-Identifier: Apache-2.0
// The control thread answers the servers' requests and runs the session of each target in turn
// (target_controller.h). It owns the attachments; the ingest thread owns the collected data.
//
// Threads of memprofd and the data that each owns:
//
//   main      signals, lifetime of the servers and of this object
//   control   TargetController with its AttachedTarget, budget, plugins
//   look      one thread per target that is inspected or searched for plugins: the result
//             (inspection.h)
//   lease     no data: it renews the leases under which agents sample (lease_renewer.h)
//   ingest    TargetPipeline, Pipeline, EventRing
//   state     no data of targets: it writes immutable snapshots to files
//   values    no data of targets: it reads published values and posts them to ingest
//   servers   no data: they read immutable snapshots and post requests to control
//   injector  one short-lived thread per injection: the seized threads
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "daemon/attach/attach_options.h"
#include "daemon/control/call_trace_registry.h"
#include "daemon/control/control_queue.h"
#include "daemon/control/cpu_governor.h"
#include "daemon/control/forked_children.h"
#include "daemon/control/lease_renewer.h"
#include "daemon/control/residency_scanner.h"
#include "daemon/control/rss_service.h"
#include "daemon/control/target_controller.h"
#include "daemon/control/value_sampler.h"
#include "daemon/export/api/heap_outcomes.h"
#include "daemon/export/api/service.h"
#include "daemon/history/snapshot_hub.h"
#include "daemon/model/discovery.h"
#include "daemon/pipeline/ingest_thread.h"
#include "daemon/state/state_store.h"

namespace memprofd {

// Settings that do not come from users; those are in Config.
struct DaemonOptions {
  AttachOptions attach;
  AttachMode mode = AttachMode::kAuto;
  double sampling_rate = 0;                 // samples per word, not 0
  double max_overhead = kUsualMaxOverhead;  // share of a target's CPU; 0: no budget
  double cpu_max = kUsualCpuMax;            // processors that memprofd itself may use; 0: no limit
  std::size_t history_bytes = 0;            // total for all targets
  // Time for which the counts of an ended target are kept.
  std::chrono::seconds retention{};
  std::vector<std::string> cmt;  // directories of the compilers' files
};

class Daemon : public ProfilerService {
 public:
  // state: stores the targets; null: they are not stored. Stored targets are shown, and those whose
  // program still runs are attached again with the same settings.
  explicit Daemon(DaemonOptions options, std::unique_ptr<StateStore> state = nullptr);
  ~Daemon() override;  // stop()
  // Detaches from every target, which leaves each program as it was before the attach. Afterwards
  // queries are still answered, requests are not.
  void stop();
  // True if the previous memprofd was attached to the process and this one resumes it.
  bool resumes(int pid) const { return resuming_.contains(pid); }
  // Fails all pending and future requests with kAborted. Any thread.
  void cancel_requests();
  bool cancelled() const { return cancelled_; }

  void mark_moment() override;
  std::vector<ProfileSnapshotPtr> snapshots() override;
  std::vector<ProfileSnapshotPtr> lasting_snapshots() override;
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override;
  absl::StatusOr<std::uint64_t> process_start_ticks(int pid) override;
  absl::StatusOr<TargetInfo> attach(const AttachRequest& request) override;
  absl::Status detach(const RequestedProcess& process) override;
  absl::Status set_rate(const RequestedProcess& process, const RateRequest& request) override;
  absl::StatusOr<HeapSummary> take_heap(const HeapRequest& request,
                                        const HeapClient& client) override;
  absl::StatusOr<std::uint32_t> resume(const RequestedProcess& process) override;
  absl::StatusOr<std::uint32_t> adjust(const RequestedProcess& process,
                                       const PublishedControl& control) override;
  absl::StatusOr<std::vector<std::string>> keep_values(const RequestedProcess& process,
                                                       const KeepRequest& request) override;
  absl::StatusOr<RequestAnswer> ask(const RequestedProcess& process,
                                    const PublishedRequest& request,
                                    const std::function<bool()>& wanted) override;
  absl::StatusOr<ValuesAnswer> read_values(const RequestedProcess& process,
                                           const ValuesRequest& request,
                                           const std::function<bool()>& wanted) override;
  std::vector<PublishedValues> read_published(const ValuesRequest& request) override;
  std::vector<Finding> diagnose(const RequestedProcess& process) override;
  absl::StatusOr<RssReport> account_rss(const RequestedProcess& process,
                                        RssOptions options) override {
    return rss_service_.ask(process, options);
  }
  absl::StatusOr<std::shared_ptr<CallTrace>> trace_calls(const RequestedProcess& process,
                                                         const CallsRequest& request) override {
    return call_trace_registry_.start(process, request);
  }
  SelfStats self_stats() override;
  Discoveries discovered() override { return discoveries_->get(); }
  // The results of the search for programs.
  std::shared_ptr<DiscoveryStore> discovery_book() const { return discoveries_; }
  // The points at which a target waits for snapshots. Returns the errors of take_heap(). Any
  // thread.
  absl::StatusOr<HeapPoints> heap_points(int pid);
  // Durations of summing up all targets for a query. Any thread.
  DurationCounts publications() const { return ingest_.publications(); }
  // Outcomes of heap snapshots; code that refuses one counts it here.
  std::shared_ptr<HeapOutcomes> heap_outcomes() const { return heap_outcomes_; }

 private:
  using Sessions = std::map<int, std::unique_ptr<TargetController>>;

  enum class Whom { kDue, kAll };  // sessions to visit

  void loop();
  std::chrono::steady_clock::time_point next_due() const;
  bool has_pending_answers() const;
  void answer_pending();
  void tick(Whom whom);
  void take_over_inspections();
  void follow_child();
  // The user for whom a target is profiled.
  std::string user_of(int pid) const;
  bool may_follow(const ForkFamily& family, const ForkedChild& child);
  // why: includes the child's pid.
  void skip_child(int parent, SkippedChildren::Reason reason, const std::string& why);
  void forget_ended();

  // Begins to inspect a process for the user of this thread. forked_from: the target whose child it
  // is, or 0.
  absl::StatusOr<TargetController*> open_target(const AttachRequest& request, int forked_from,
                                                ForkFamilyPtr family,
                                                ProfileSnapshotPtr resumes_from = nullptr);
  // All targets of the previous memprofd are shown as they were; those whose program still runs
  // are attached again, a few at a time, and continue.
  void show_stored();
  void resume_next();
  // Writes the state before a client receives a reply, so that the next memprofd knows its
  // contents.
  void write_down();
  std::deque<ProfileSnapshotPtr>::const_iterator waiting_to_resume(int pid) const;
  absl::StatusOr<bool> cancel_resume(const RequestedProcess& process);
  absl::Status check_request(const AttachRequest& request) const;
  absl::StatusOr<TargetController*> find_attached(const RequestedProcess& process);
  absl::StatusOr<HeapSource> heap_source(const RequestedProcess& process);
  void do_detach(const RequestedProcess& process, SessionAnswer answer);
  absl::StatusOr<std::shared_ptr<ValueProgram>> value_program(const RequestedProcess& process);
  absl::StatusOr<std::shared_ptr<ValueProgram>> publishing_program(const RequestedProcess& process);
  std::vector<PublishingTarget> publishing_targets();
  std::vector<ResidencyTarget> residency_targets();
  void do_set_rate(const RequestedProcess& process, const RateRequest& request,
                   SessionAnswer answer);
  void drop_requests();
  void stop_all();

  const std::shared_ptr<ControlQueue> queue_ = std::make_shared<ControlQueue>();
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<std::chrono::steady_clock::time_point> turned_at_;  // last turn of the control loop
  DaemonOptions options_;
  SnapshotHub hub_;
  IngestThread ingest_;
  LeaseRenewer leases_;
  ForkedChildren children_;  // control thread only
  FiredProbes fired_;
  const SessionContext context_{ingest_, leases_, children_, fired_,
                                [queue = queue_] { queue->wake(); }};
  Sessions targets_;          // control thread only
  CpuGovernor cpu_governor_;  // control thread only
  const std::unique_ptr<StateStore> state_;
  std::set<int> resuming_;                    // control thread only: not inspected yet
  std::deque<ProfileSnapshotPtr> to_resume_;  // control thread only: not inspected yet
  JoinedInspections<RequestedProcess, std::vector<Finding>> diagnoses_;
  RssService rss_service_;
  CallTraceRegistry call_trace_registry_;
  const std::shared_ptr<HeapOutcomes> heap_outcomes_ = std::make_shared<HeapOutcomes>();
  const std::shared_ptr<DiscoveryStore> discoveries_ = std::make_shared<DiscoveryStore>();
  std::thread control_;
  const GuardedTypes types_{options_.cmt};
  std::unique_ptr<ValueSampler> value_sampler_;
  std::unique_ptr<ResidencyScanner> residency_scanner_;
};

}  // namespace memprofd
