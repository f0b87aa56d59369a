// SPDX-License-Identifier: Apache-2.0
// The path of one target's data through the daemon, from its ring buffer and agent to snapshots.
// Owned by the ingest thread, which makes every call here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/attach/attached_target.h"
#include "daemon/attach/kernel/event_ring.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot.h"
#include "daemon/history/value_history.h"
#include "daemon/pipeline/catch_up_pace.h"
#include "daemon/pipeline/event_tap.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/sample_sites.h"
#include "daemon/pipeline/session_requests.h"
#include "daemon/pipeline/target_readings.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Counters that a target's pipeline publishes to other threads. The ingest thread is the only
// writer; the control thread polls them. All count from the attach. exec_seen ends the session;
// batches_seen proves that the probes work, once everything before consumed_until has been
// processed; records shows that the target needs attention; frametables_registered triggers the
// search for plugins. The budget uses alloc_events, captures_seen, frames_seen, records_lost and
// ingest_ns.
struct PipelineSignals {
  std::atomic<bool> exec_seen{false};
  std::atomic<std::chrono::steady_clock::time_point> consumed_until{};
  std::atomic<std::uint64_t> alloc_events{0};
  std::atomic<std::uint64_t> captures_seen{0};
  std::atomic<std::uint64_t> frames_seen{0};
  std::atomic<std::uint64_t> records_lost{0};
  std::atomic<std::uint64_t> batches_seen{0};
  std::atomic<std::uint64_t> frametables_registered{0};
  std::atomic<std::uint64_t> records{0};    // from the target's ring
  std::atomic<std::uint64_t> ingest_ns{0};  // CPU time of this thread for the target
};

class TargetPipeline {
 public:
  // before: the previous memprofd's last snapshot of the same program, from which this continues;
  // may be null.
  TargetPipeline(std::shared_ptr<AttachedTarget> attachment, std::shared_ptr<Symbolizer> symbolizer,
                 TargetInfo info, ProfileSnapshotPtr before = nullptr);
  // A target that has ended: the pipeline is finished, with this final snapshot.
  explicit TargetPipeline(ProfileSnapshotPtr ended);

  Pipeline& pipeline() { return pipeline_; }
  // The agent has been loaded into the process.
  void set_agent(const AgentControl& agent);

  // Processes the contents of the ring, at most one turn (EventRing::consume), so that other
  // targets need not wait long. Returns the number of records.
  int consume(std::uint64_t end = std::numeric_limits<std::uint64_t>::max());
  // Processes the contents of the ring and the agent's unflushed records, so that all events of the
  // target up to now are counted. Later ones remain.
  void catch_up();
  // Like catch_up(), but skips a program that has not run since the last time.
  void catch_up_if_run();
  // Allocation callstacks and times of those of these blocks that are live, as of all events up to
  // now.
  SampleSites sites_of(std::span<const SampleId> numbers);
  // True if a catch-up is due; called in each turn.
  bool catch_up_due(std::chrono::steady_clock::time_point now);
  // Addresses of the live sampled native blocks, and the state of their pages.
  std::vector<NativeBlock> native_blocks() const { return pipeline_.aggregator().native_blocks(); }
  void note_native_blocks(const ResidencyScan& scan);
  void end_native_heap();

  // True if the target has sent nothing for long and no client waits for each event. It is then
  // checked rarely.
  bool at_rest(std::chrono::steady_clock::time_point now) const {
    return finished() || (catch_up_pace_.at_rest(now) && !tap_.log()->wanted());
  }

  // Ends the current history window if it is due.
  void keep_history();
  // Ends the window now, so that a range can begin here. Call catch_up() first.
  void mark_moment();
  // Memory of the history, including observed hits that no window contains yet.
  std::size_t history_bytes() const {
    return history_.memory_bytes() + values_.memory_bytes() +
           pipeline_.aggregator().observed_bytes();
  }
  // Stores the current published values of the program; times in CLOCK_MONOTONIC.
  void note_values(ValueSample sample);
  // Drops the oldest history; returns false if there is none.
  bool shed_history();

  ProfileSnapshotPtr snapshot();
  // Processes the last data and releases the attachment. From now on snapshot() returns the final
  // snapshot.
  void finish();
  bool finished() const { return attachment_ == nullptr; }
  int ring_epoll_fd() const { return ring_->epoll_fd(); }

  // Any thread.
  TargetInfo info() const;
  void update_info(const std::function<void(TargetInfo&)>& change);
  PipelineSignals& signals() { return signals_; }
  // Number of times that the memory limit for samples was reached.
  std::uint64_t memory_refused() const { return memory_->refused(); }
  // Called by the control thread before the agent gets the request for that session, so that the
  // session's events are counted at this rate.
  void request_session(std::uint32_t generation, double rate);
  // Limits the CPU time for reading the target's events to this number of processors; 0: no limit.
  // The kernel counts events that do not fit into the ring meanwhile.
  void slow_to(double cores) { slow_to_ = cores; }
  // The children that the program has forked since the last call.
  std::vector<int> take_children();

 private:
  // Measures this thread's CPU time while it exists. A nested Meter has no effect.
  class Meter;

  bool rests() const;
  int pid() const { return attachment_->target().pid; }
  int take_in(std::uint64_t end);
  void resume_from(const ProfileSnapshot& before);
  TargetInfo shown_info() const;
  void take_requested_sessions();
  void publish_counts();
  void end_records();
  void note_children();
  void read_counters(ProfileSnapshot& snapshot);
  std::uint64_t history_now() const;
  HistoryPoint history_point() const;
  void close_window();
  HistoryView history_view() const;

  std::shared_ptr<AttachedTarget> attachment_;
  std::unique_ptr<EventRing> ring_;
  SharedBudget memory_ = ByteBudget::for_samples();
  Pipeline pipeline_;
  EventTap tap_;
  std::optional<TargetReadings> readings_;  // until the pipeline is finished
  CatchUpPace catch_up_pace_;
  // CPU time of the program before its agent was read. While it is unchanged, so is the memory.
  std::uint64_t caught_up_cpu_ns_ = 0;
  std::shared_ptr<Symbolizer> symbolizer_;
  // History uses CLOCK_MONOTONIC plus a fixed offset to Unix time, so that it never goes back.
  ProfileSnapshotPtr
      before_;  // the snapshot that this continues, without rows and history; or null
  std::uint64_t began_ns_;
  std::uint64_t began_monotonic_ns_;
  std::uint64_t attached_ns_;  // time at which the previous memprofd attached, if this continues
                               // its work
  History history_;
  ValueHistory values_;
  ProfileSnapshotPtr final_;
  PipelineSignals signals_;
  std::atomic<double> slow_to_{0};
  std::chrono::steady_clock::time_point rests_until_;  // set while the target is slowed down
  bool metered_ = false;
  mutable Mutex info_mutex_;
  TargetInfo info_ ABSL_GUARDED_BY(info_mutex_);
  std::vector<int> children_ ABSL_GUARDED_BY(info_mutex_);
  SessionRequests requested_sessions_;
};

}  // namespace memprofd
