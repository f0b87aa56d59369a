// SPDX-License-Identifier: Apache-2.0
// The way of one target's data through the daemon: its ring buffer and agent in,
// snapshots out. Owned by the ingest thread, which makes every call here.
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
  std::atomic<std::uint64_t> records{0};    // of its ring
  std::atomic<std::uint64_t> ingest_ns{0};  // CPU time of this thread for the target
};

class TargetPipeline {
 public:
  // before: the last snapshot of the same program by the previous memprofd, which this continues;
  // or null.
  TargetPipeline(std::shared_ptr<AttachedTarget> attachment, std::shared_ptr<Symbolizer> symbolizer,
                 TargetInfo info, ProfileSnapshotPtr before = nullptr);
  // A target that has ended: the pipeline is finished, and this is its final snapshot.
  explicit TargetPipeline(ProfileSnapshotPtr ended);

  Pipeline& pipeline() { return pipeline_; }
  // The agent appeared in the process.
  void set_agent(const AgentControl& agent);

  // Takes what the ring holds, a turn at most (EventRing::consume): other targets wait meanwhile.
  // Answers with the number of records.
  int consume(std::uint64_t end = std::numeric_limits<std::uint64_t>::max());
  // Processes everything that the ring holds now and the agent's unflushed records, so that all
  // events of the target up to now are counted. Later ones are left.
  void catch_up();
  // The same, unless the program has not run since the last time: then it is asked nothing.
  void catch_up_if_run();
  // Callstack and time of the allocation of these blocks, for those that live, as of all events up
  // to now.
  SampleSites sites_of(std::span<const SampleId> numbers);
  // True if that is due; called in each turn.
  bool catch_up_due(std::chrono::steady_clock::time_point now);
  // Addresses of the live sampled native blocks, and the state of their pages.
  std::vector<NativeBlock> native_blocks() const { return pipeline_.aggregator().native_blocks(); }
  void note_native_blocks(const ResidencyScan& scan);
  void end_native_heap();

  // True if it has sent nothing for long and no client waits for each event: then it is checked
  // rarely.
  bool at_rest(std::chrono::steady_clock::time_point now) const {
    return finished() || (catch_up_pace_.at_rest(now) && !tap_.log()->wanted());
  }

  // Ends the window of history that runs when its time has come.
  void keep_history();
  // Ends it now, so that a range can begin here. To be called after catch_up().
  void mark_moment();
  // With observed hits that no window has yet.
  std::size_t history_bytes() const {
    return history_.memory_bytes() + values_.memory_bytes() +
           pipeline_.aggregator().observed_bytes();
  }
  // Stores the values that the program publishes now; times in CLOCK_MONOTONIC.
  void note_values(ValueSample sample);
  // Gives up the oldest history; false when there is none.
  bool shed_history();

  ProfileSnapshotPtr snapshot();
  // Last look: lets the attachment go; snapshot() repeats the final one from now on.
  void finish();
  bool finished() const { return attachment_ == nullptr; }
  int ring_epoll_fd() const { return ring_->epoll_fd(); }

  // Any thread.
  TargetInfo info() const;
  void update_info(const std::function<void(TargetInfo&)>& change);
  PipelineSignals& signals() { return signals_; }
  // Number of times that no memory was left for samples.
  std::uint64_t memory_refused() const { return memory_->refused(); }
  // Called by the control thread before the agent gets the request for that session: its events
  // belong to the rate.
  void request_session(std::uint32_t generation, double rate);
  // Limits the reading of its events to this share of a processor; 0: no limit. Events that find no
  // room meanwhile are counted by the kernel.
  void slow_to(double cores) { slow_to_ = cores; }
  // The children that the program has forked since the last call.
  std::vector<int> take_children();

 private:
  struct RequestedSession {
    std::uint32_t generation;
    double rate;
    // Positions for Pipeline::expect() in the first session; nothing if unknown.
    std::optional<std::vector<BufferPosition>> positions;
  };

  // Counts this thread's time, as long as it is there; within another one it does nothing.
  class Meter;

  bool rests() const;
  bool has_run_since(std::uint64_t cpu_ns) const;
  int take_in(std::uint64_t end);
  std::optional<std::vector<BufferPosition>> positions_of_agent() const;
  void resume_from(const ProfileSnapshot& before);
  TargetInfo shown_info() const;
  void take_requested_sessions();
  void publish_counts();
  void end_records();
  void note_children();
  void read_counters(ProfileSnapshot& snapshot);
  void read_gc_stats_of_target();
  void read_memory_of_target();
  void count_agent_drops(const AgentStatus& agent);
  void note_followed(const AgentStatus& agent);
  void read_native_heap_status();
  // agent: null when it cannot be read.
  absl::StatusOr<GcStats> gc_stats_now(const AgentStatus* agent) const;
  std::uint64_t history_now() const;
  HistoryPoint history_point() const;
  void read_for_history();
  void close_window();
  HistoryView history_view() const;

  std::shared_ptr<AttachedTarget> attachment_;
  std::unique_ptr<EventRing> ring_;
  SharedBudget memory_ = ByteBudget::for_samples();
  Pipeline pipeline_;
  EventTap tap_;
  std::optional<AgentControl> agent_;
  std::optional<NativeHeapControl> native_heap_;
  std::optional<std::uint64_t> native_blocks_before_;  // that it had given up at first
  bool native_heap_logged_ = false;                    // what of it is not followed
  std::optional<AgentStatus> first_status_;            // of the agent; its earlier counts
  std::optional<std::uint64_t> unsampled_words_;       // as last reported
  bool own_use_logged_ = false;                        // that the program samples a domain itself
  CatchUpPace catch_up_pace_;
  // CPU time of the program before its memory was read: as long as it is the same, so is that.
  std::uint64_t caught_up_cpu_ns_ = 0, gc_cpu_ns_ = 0;
  GcStats gc_;
  MajorTimes majors_;
  std::optional<MemoryStatus> memory_status_;  // nothing once it cannot be read
  std::chrono::steady_clock::time_point memory_read_at_;
  MemoryParts memory_parts_;  // as they were last
  std::shared_ptr<Symbolizer> symbolizer_;
  // History's clock is CLOCK_MONOTONIC moved to Unix time once: it never goes back.
  ProfileSnapshotPtr
      before_;  // the snapshot that this continues, without rows and history; or null
  std::uint64_t began_ns_;
  std::uint64_t began_monotonic_ns_;
  std::uint64_t attached_ns_;  // by the previous memprofd, if this continues one
  History history_;
  ValueHistory values_;
  ProfileSnapshotPtr final_;
  PipelineSignals signals_;
  std::atomic<double> slow_to_{0};
  std::chrono::steady_clock::time_point rests_until_;  // while it is slowed
  bool metered_ = false;
  mutable Mutex info_mutex_;
  TargetInfo info_ ABSL_GUARDED_BY(info_mutex_);
  std::vector<int> children_ ABSL_GUARDED_BY(info_mutex_);
  std::vector<RequestedSession> requested_sessions_ ABSL_GUARDED_BY(info_mutex_);
  bool any_requested_ = false;  // of the control thread
};

}  // namespace memprofd
