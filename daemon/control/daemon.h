// SPDX-License-Identifier: Apache-2.0
// The control thread: attaches, watches and detaches targets, and answers the
// servers' requests. It owns all attachments; the ingest thread owns their data.
//
// Threads of memprofd and what each owns:
//   main      signals, servers' life, this object's life
//   control   AttachedTarget, targets_, openings_
//   look      one a target that is looked at, or searched for plugins: what it finds (look.h)
//   lease     nothing: it renews what the agents sample under (lease_keeper.h)
//   ingest    Lane, Pipeline, EventRing
//   servers   nothing: they read immutable snapshots and post requests here
//   injector  one short-lived thread per injection: the seized threads
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/attach/attachment.h"
#include "daemon/control/attach_answer.h"
#include "daemon/control/attach_mode.h"
#include "daemon/control/control_queue.h"
#include "daemon/control/forked_children.h"
#include "daemon/control/lease_keeper.h"
#include "daemon/control/left_alone.h"
#include "daemon/control/look.h"
#include "daemon/control/plugin_follower.h"
#include "daemon/control/target_overhead.h"
#include "daemon/export/api/service.h"
#include "daemon/history/snapshot_hub.h"
#include "daemon/pipeline/ingest_thread.h"
#include "daemon/pipeline/lane.h"
#include "daemon/symbolize/ocaml_symbolizer.h"

namespace memprofd {

struct DaemonOptions {
  AttachOptions attach;
  AttachMode mode = AttachMode::kAuto;
  double sampling_rate = 1e-5;
  double max_overhead = 0;                 // share of a target's CPU; 0: no budget
  std::size_t history_bytes = 128u << 20;  // of all targets together
  // How long the counts of a target that has ended stay.
  std::chrono::seconds retention{3600};
};

class Daemon : public ProfilerService {
 public:
  explicit Daemon(DaemonOptions options);
  // Detaches from every target: each ends up as it was.
  ~Daemon() override;
  // Answers all who wait for something with kAborted, from now on at once. Any thread.
  void cancel_requests();
  bool cancelled() const { return cancelled_; }

  std::vector<TargetSnapshotPtr> snapshots() override;
  absl::StatusOr<TargetSnapshotPtr> snapshot(int pid) override;
  absl::StatusOr<TargetInfo> attach(const AttachRequest& request) override;
  absl::Status detach(int pid) override;
  absl::Status set_rate(int pid, double rate) override;
  std::vector<Finding> diagnose(int pid) override;
  SelfStats self_stats() override;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  // One target of the past or present. attachment is null once it has ended.
  struct Profiled {
    std::shared_ptr<Lane> lane;
    std::shared_ptr<AttachedTarget> attachment;
    PluginFollower plugins;
    std::unique_ptr<TargetOverhead> overhead;  // null: no budget
    AttachMode mode = AttachMode::kAuto;
    std::string why_observed;  // one line, in observe mode
    std::string why_rate;      // for the log, when the budget has changed it
    std::string why_ended;     // the session before the one that runs, by itself; as logged
    bool said_exhausted = false;
    bool sampling = false;
    AttachAnswer answer;  // until it samples, has ended, or kAttachPatience is over
    int forked_from = 0;  // the target that it is a child of
    bool follow_forks = false;
    LeftAlone left_alone;  // of its children
    TimePoint requested_at;
    TimePoint sampling_since;
    TimePoint kept_alive_at;
    TimePoint ended_at;
  };

  using LookFunction = std::function<absl::StatusOr<Prepared>(std::stop_token)>;

  // A target to be: a thread of its own looks at the program.
  struct Opening {
    std::optional<Look<absl::StatusOr<Prepared>>> look;
    Profiled profiled;
    double requested_rate = 0;
    double max_overhead = 0;
    absl::Status why_instead;  // in observe mode, as the agent found that it cannot sample
  };

  void loop();
  bool any_waiting() const;
  bool anybody_waits() const;
  void hasten();
  void give_answer(Profiled& profiled);
  void drop_requests();
  void tick();
  void tick(Profiled& profiled);
  void advance(Profiled& profiled);
  void check_probes(Profiled& profiled);
  void keep_lease(const AttachedTarget& target);
  void keep_alive(Profiled& profiled);
  absl::Status set_budget(Profiled& profiled, const AttachedTarget& target, double share,
                          double rate);
  static void show_budget(Profiled& profiled);
  void keep_to_budget(Profiled& profiled);
  void note_children(Profiled& profiled);
  bool looks_at_child_of(int parent) const;
  void follow_child();
  // why: with the child's pid.
  void leave_alone(int parent, LeftAlone::Reason reason, const std::string& why);
  void end_exited(Profiled& profiled);

  void do_attach(const AttachRequest& request, AttachAnswer answer);
  // Begins to look at it. forked_from: the target that it is a child of, or 0.
  absl::Status open_target(const AttachRequest& request, AttachAnswer& answer, int forked_from = 0);
  absl::Status check_request(const AttachRequest& request) const;
  absl::Status start_look(int pid, Opening& opening, LookFunction look);
  void take_over_looks();
  void take_over(int pid, Opening opening);
  absl::Status begin(Opening& opening, Prepared prepared);
  void use(Profiled& profiled, Prepared prepared, double rate);
  void observe_instead(Profiled& profiled, const absl::Status& why);
  absl::Status start_session(Profiled& profiled, double rate);
  static absl::StatusOr<TargetInfo> attach_result(const Profiled& profiled);
  absl::StatusOr<Profiled*> find_attached(int pid);
  absl::Status do_detach(int pid);
  absl::Status do_set_rate(int pid, double rate);
  void end(Profiled& profiled, TargetState state, const std::string& message);
  void stop_all();
  void forget_ended();

  const std::shared_ptr<ControlQueue> queue_ = std::make_shared<ControlQueue>();
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stop_ = false;
  DaemonOptions options_;
  SnapshotHub hub_;
  IngestThread ingest_;
  LeaseKeeper leases_;
  std::map<int, Profiled> targets_;  // control thread only
  std::map<int, Opening> openings_;  // likewise
  ForkedChildren children_;          // likewise
  std::thread control_;
};

}  // namespace memprofd
