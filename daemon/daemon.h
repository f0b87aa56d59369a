// The control thread: attaches, watches and detaches targets, and answers the
// servers' requests. It owns all attachments; the ingest thread owns their data.
//
// Threads of memprofd and what each owns:
//   main      signals, servers' life, this object's life
//   control   AttachedTarget, targets_
//   ingest    Lane, Pipeline, EventRing
//   servers   nothing: they read immutable snapshots and post requests here
//   injector  one short-lived thread per injection: the seized threads
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "daemon/attach/attachment.h"
#include "daemon/attach_mode.h"
#include "daemon/export/service.h"
#include "daemon/forked_children.h"
#include "daemon/ingest_thread.h"
#include "daemon/lane.h"
#include "daemon/plugin_follower.h"
#include "daemon/store/snapshot_hub.h"
#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/target_overhead.h"

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
    int forked_from = 0;  // the target that it is a child of
    bool follow_forks = false;
    TimePoint requested_at;
    TimePoint sampling_since;
    TimePoint kept_alive_at;
    TimePoint ended_at;
  };

  // Runs fn on the control thread and answers with its result.
  template <typename Fn>
  auto on_control(Fn fn) -> decltype(fn());

  void loop();
  bool any_waiting() const;
  void tick();
  void tick(Profiled& profiled);
  void advance(Profiled& profiled);
  void check_probes(Profiled& profiled);
  void keep_alive(Profiled& profiled);
  absl::Status set_budget(Profiled& profiled, const AttachedTarget& target, double share,
                          double rate);
  static void show_budget(Profiled& profiled);
  void keep_to_budget(Profiled& profiled);
  void note_children(Profiled& profiled);
  void follow_child();
  void end_exited(Profiled& profiled);

  absl::StatusOr<TargetInfo> do_attach(const AttachRequest& request);
  // forked_from: the target that it is a child of, or 0.
  absl::StatusOr<Profiled*> open_target(const AttachRequest& request, int forked_from = 0);
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

  DaemonOptions options_;
  SnapshotHub hub_;
  IngestThread ingest_;
  std::map<int, Profiled> targets_;  // control thread only
  ForkedChildren children_;          // likewise

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> requests_;  // under mutex_
  bool stop_ = false;                           // under mutex_
  std::thread control_;
};

}  // namespace memprofd
