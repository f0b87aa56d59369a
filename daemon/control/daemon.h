// SPDX-License-Identifier: Apache-2.0
// The control thread: answers the servers' requests, and has all targets (target_session.h)
// cared for in turn. It owns their attachments; the ingest thread owns their data.
//
// Threads of memprofd and what each owns:
//   main      signals, servers' life, this object's life
//   control   TargetSession and what it has: AttachedTarget, budget, plugins
//   look      one a target that is looked at, or searched for plugins: what it finds (look.h)
//   lease     nothing: it renews what the agents sample under (lease_keeper.h)
//   ingest    Lane, Pipeline, EventRing
//   state     nothing of targets: it reads immutable snapshots and keeps them in files
//   values    nothing of targets: it reads what they say and posts it to ingest
//   servers   nothing: they read immutable snapshots and post requests here
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
#include "daemon/control/c_block_keeper.h"
#include "daemon/control/call_desk.h"
#include "daemon/control/control_queue.h"
#include "daemon/control/cpu_keeper.h"
#include "daemon/control/forked_children.h"
#include "daemon/control/lease_keeper.h"
#include "daemon/control/left_alone.h"
#include "daemon/control/rss_desk.h"
#include "daemon/control/target_session.h"
#include "daemon/control/value_keeper.h"
#include "daemon/export/api/heap_outcomes.h"
#include "daemon/export/api/service.h"
#include "daemon/history/snapshot_hub.h"
#include "daemon/model/discovery.h"
#include "daemon/pipeline/ingest_thread.h"
#include "daemon/state/state_keeper.h"

namespace memprofd {

// What users do not say is in Config.
struct DaemonOptions {
  AttachOptions attach;
  AttachMode mode = AttachMode::kAuto;
  double sampling_rate = 0;                 // samples per word, not 0
  double max_overhead = kUsualMaxOverhead;  // share of a target's CPU; 0: no budget
  double cpu_max = kUsualCpuMax;            // of a processor, for memprofd itself; 0: no bound
  std::size_t history_bytes = 0;            // of all targets together
  // How long the counts of a target that has ended stay.
  std::chrono::seconds retention{};
  std::vector<std::string> cmt;  // places of compilers' files
};

class Daemon : public ProfilerService {
 public:
  // state: where targets are kept; null: nowhere. Those that were kept there are shown; those of
  // which the program still runs are attached to again, as they were.
  explicit Daemon(DaemonOptions options, std::unique_ptr<StateKeeper> state = nullptr);
  ~Daemon() override;  // stop()
  // Detaches from every target: each ends up as it was. Questions are still answered then,
  // requests are not.
  void stop();
  // Whether it was attached to when an earlier memprofd ended, and goes on.
  bool goes_on(int pid) const { return going_on_.contains(pid); }
  // Answers all who wait for something with kAborted, from now on at once. Any thread.
  void cancel_requests();
  bool cancelled() const { return cancelled_; }

  void mark_moment() override;
  std::vector<TargetSnapshotPtr> snapshots() override;
  std::vector<TargetSnapshotPtr> lasting_snapshots() override;
  absl::StatusOr<TargetSnapshotPtr> snapshot(int pid) override;
  absl::StatusOr<std::uint64_t> process_start_ticks(int pid) override;
  absl::StatusOr<TargetInfo> attach(const AttachRequest& request) override;
  absl::Status detach(const AskedProcess& process) override;
  absl::Status set_rate(const AskedProcess& process, const RateRequest& request) override;
  absl::StatusOr<HeapSummary> take_heap(const HeapRequest& request,
                                        const HeapClient& client) override;
  absl::StatusOr<std::uint32_t> resume(const AskedProcess& process) override;
  absl::StatusOr<std::uint32_t> adjust(const AskedProcess& process,
                                       const ReportControl& control) override;
  absl::StatusOr<std::vector<std::string>> keep_values(const AskedProcess& process,
                                                       const KeepRequest& request) override;
  absl::StatusOr<RequestAnswer> ask(const AskedProcess& process, const ReportRequest& request,
                                    const std::function<bool()>& wanted) override;
  absl::StatusOr<ValuesAnswer> read_values(const AskedProcess& process,
                                           const ValuesRequest& request,
                                           const std::function<bool()>& wanted) override;
  std::vector<PublishedValues> read_published(const ValuesRequest& request) override;
  std::vector<Finding> diagnose(const AskedProcess& process) override;
  absl::StatusOr<RssReport> account_rss(const AskedProcess& process, RssOptions options) override {
    return rss_desk_.ask(process, options);
  }
  absl::StatusOr<std::shared_ptr<CallTrace>> trace_calls(const AskedProcess& process,
                                                         const CallsRequest& request) override {
    return call_desk_.start(process, request);
  }
  SelfStats self_stats() override;
  Discoveries discovered() override { return discoveries_->get(); }
  // Where the search for programs writes what it finds.
  std::shared_ptr<DiscoveryBook> discovery_book() const { return discoveries_; }
  // Where a target waits for snapshots of it. Errors as of take_heap(); any thread.
  absl::StatusOr<HeapPoints> heap_points(int pid);
  // What it took to sum up all targets, for who asked. Any thread.
  DurationCounts publications() const { return ingest_.publications(); }
  // What has become of snapshots, counted by whoever refuses one too.
  std::shared_ptr<HeapOutcomes> heap_outcomes() const { return heap_outcomes_; }

 private:
  using Sessions = std::map<int, std::unique_ptr<TargetSession>>;

  enum class Whom { kDue, kAll };  // of the sessions

  void loop();
  std::chrono::steady_clock::time_point next_due() const;
  bool anybody_waits() const;
  void hasten();
  void tick(Whom whom);
  void take_over_looks();
  void follow_child();
  // For whom a target is profiled.
  std::string user_of(int pid) const;
  bool may_follow(const ForkFamily& family, const ForkedChild& child);
  // why: with the child's pid.
  void leave_alone(int parent, LeftAlone::Reason reason, const std::string& why);
  void forget_ended();

  // Begins to look at it, for who asks on this thread. forked_from: the target that it is a child
  // of, or 0.
  absl::StatusOr<TargetSession*> open_target(const AttachRequest& request, int forked_from,
                                             ForkFamilyPtr family,
                                             TargetSnapshotPtr goes_on_from = nullptr);
  // going_on.cc
  void show_stored();
  void go_on_with_next();
  // What was answered to who asked for it is to be known to the next memprofd.
  void write_down();
  std::deque<TargetSnapshotPtr>::const_iterator waiting_to_go_on(int pid) const;
  absl::StatusOr<bool> give_up_going_on(const AskedProcess& process);
  absl::Status check_request(const AttachRequest& request) const;
  absl::StatusOr<TargetSession*> find_attached(const AskedProcess& process);
  absl::StatusOr<HeapSource> heap_source(const AskedProcess& process);
  void do_detach(const AskedProcess& process, SessionAnswer answer);
  absl::StatusOr<std::shared_ptr<ValueProgram>> value_program(const AskedProcess& process);
  absl::StatusOr<std::shared_ptr<ValueProgram>> telling_program(const AskedProcess& process);
  std::vector<TellingTarget> telling_targets();
  std::vector<CBlockTarget> c_block_targets();
  void do_set_rate(const AskedProcess& process, const RateRequest& request, SessionAnswer answer);
  void drop_requests();
  void stop_all();

  const std::shared_ptr<ControlQueue> queue_ = std::make_shared<ControlQueue>();
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<std::chrono::steady_clock::time_point> turned_at_;  // of the control thread's loop
  DaemonOptions options_;
  SnapshotHub hub_;
  IngestThread ingest_;
  LeaseKeeper leases_;
  ForkedChildren children_;  // control thread only
  FiredProbes fired_;
  const SessionContext context_{ingest_, leases_, children_, fired_,
                                [queue = queue_] { queue->wake(); }};
  Sessions targets_;      // control thread only
  CpuKeeper cpu_keeper_;  // control thread only
  const std::unique_ptr<StateKeeper> state_;
  std::set<int> going_on_;                  // constant once this is there
  std::deque<TargetSnapshotPtr> to_go_on_;  // control thread only: not looked at yet
  JoinedLooks<AskedProcess, std::vector<Finding>> diagnoses_;
  RssDesk rss_desk_;
  CallDesk call_desk_;
  const std::shared_ptr<HeapOutcomes> heap_outcomes_ = std::make_shared<HeapOutcomes>();
  const std::shared_ptr<DiscoveryBook> discoveries_ = std::make_shared<DiscoveryBook>();
  std::thread control_;
  const GuardedTypes types_{options_.cmt};
  std::unique_ptr<ValueKeeper> value_keeper_;
  std::unique_ptr<CBlockKeeper> c_block_keeper_;
};

}  // namespace memprofd
