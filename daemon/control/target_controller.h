// SPDX-License-Identifier: Apache-2.0
// A target from the attach request until it is forgotten. Control thread only.
//
//                     .---- a new rate, a budget, the agent stopped by itself ----.
//                     v                                                           |
//   kInspecting ----> kWaiting ------------------- it samples -------------------> kSampling
//    |    ^           |  |                                                        |
//    |    '-observe---'  '--- detach, exec, exit, failure ---> kStopping <--------'
//    |      instead                                                |
//    |                                                             v
//    '--- refused, given up, detached --------------------------> kEnded ----> forgotten
//
//   kInspecting  inspection_ is set: another thread inspects the program, which is not changed yet.
//                target_pipeline_ has the counts of an earlier session at this pid, or is null.
//   kWaiting     attached_ and target_pipeline_ are set. A rate was requested but is not in effect.
//   kSampling    attached_ and target_pipeline_ are set. The last request is in effect.
//   kStopping    attached_ and target_pipeline_ are set. The agent was asked to stop. If the target
//                is detached, it has a short time to do so; then the kernel removes the probes.
//   kEnded       target_pipeline_ has the final counts, or is null if there never were any.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/attach_options.h"
#include "daemon/attach/attached_target.h"
#include "daemon/control/control_queue.h"
#include "daemon/control/cpu_bound.h"
#include "daemon/control/forked_children.h"
#include "daemon/control/inspection.h"
#include "daemon/control/lease_renewer.h"
#include "daemon/control/plugin_follower.h"
#include "daemon/control/prepare_target.h"
#include "daemon/control/residency_scanner.h"
#include "daemon/control/target_overhead.h"
#include "daemon/control/tick_pace.h"
#include "daemon/discover/wait_budget.h"
#include "daemon/heapdump/heap_taker.h"
#include "daemon/model/control.h"
#include "daemon/pipeline/ingest_thread.h"
#include "daemon/pipeline/target_pipeline.h"
#include "daemon/values/value_program.h"

namespace memprofd {

// The request for a session.
struct SessionOptions {
  int pid = 0;
  AttachOptions attach;
  AttachMode mode = AttachMode::kAuto;  // not kDefault
  double rate = 0;
  double max_overhead = 0;  // share of the target's CPU at first; 0: no budget
  int forked_from = 0;      // the target that it is a child of; 0: none
  ForkFamilyPtr family;     // family of the target
  std::string user;         // user on whose behalf it is profiled; empty: root or memprofd itself
};

// Probes that have fired for some target, so the kernel does not suppress them.
struct FiredProbes {
  bool agent = false;
  bool capture = false;
};

// Shared by all sessions; outlives them.
struct SessionContext {
  IngestThread& ingest;
  LeaseRenewer& leases;
  ForkedChildren& children;
  FiredProbes& fired;
  std::function<void()> wake;  // ends the control thread's wait; any thread
};

// The answer to a request to a session.
using SessionAnswer = Answer<absl::StatusOr<TargetInfo>>;

class TargetController {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;
  enum class State { kInspecting, kWaiting, kSampling, kStopping, kEnded };

  // Begins to inspect the program. before: the ended target at this pid, or null; its counts are
  // shown until there are new ones. An error leaves it unchanged. resumes_from: the last snapshot
  // of the same program by the previous memprofd, or null.
  static absl::StatusOr<std::unique_ptr<TargetController>> open(SessionOptions options,
                                                                const SessionContext& context,
                                                                TargetController* before,
                                                                ProfileSnapshotPtr resumes_from);
  // A target of an earlier memprofd that has ended, with its final snapshot.
  static std::unique_ptr<TargetController> of_ended(ProfileSnapshotPtr snapshot,
                                                    std::chrono::steady_clock::time_point ended_at,
                                                    const SessionContext& context);
  ~TargetController();
  TargetController(const TargetController&) = delete;
  TargetController& operator=(const TargetController&) = delete;

  State state() const { return state_; }
  bool attached() const { return attached_.has_value(); }
  // True if it is to end but is not detached from the program yet.
  bool is_detaching() const {
    return state_ == State::kStopping ||
           (state_ == State::kInspecting && inspect_until_ != TimePoint::max());
  }
  int forked_from() const { return options_.forked_from; }
  const std::string& user() const { return options_.user; }
  // Owner of the process when the session began; nullopt if unknown.
  std::optional<uid_t> owner() const { return owner_; }
  const ForkFamily* family() const { return options_.family.get(); }

  // Replies to a request for an attach or a rate when the target samples, has ended, or takes
  // longer than `patience` after its inspection.
  void answer_when_sampling(SessionAnswer answer, std::chrono::milliseconds patience);
  void answer_when_ended(SessionAnswer answer);
  // True if it is attached and a request waits for an answer.
  bool answer_awaited() const { return attached() && !pending_answers_.empty(); }
  void give_answers();
  void drop_answers() { pending_answers_.clear(); }

  // While kInspecting: true if the inspection has ended or exceeded its time.
  bool inspection_over() const {
    return inspection_->done() || inspection_->over_budget() || Clock::now() >= inspect_until_;
  }
  // Starts the session with the result of the inspection. Returns the error that prevents it; then
  // the session has ended.
  absl::Status take_over_inspection();
  // Ends a session that is not attached; the result of its inspection is dropped.
  void give_up_inspection(const absl::Status& why);

  // Call this repeatedly while attached: starts sampling, checks that it continues, and detects the
  // end of the program, its plugins and its children.
  void tick();
  // Calls tick() unless nothing can have changed.
  void tick_when_due();
  // Time of the next tick.
  TimePoint due_at() const { return pace_.due_at(); }
  // While attached: memprofd's CPU time for this target since the last call. The resulting limit in
  // cores goes to limit_cpu(); 0: none.
  CpuBound::Target cpu_taken();
  void limit_cpu(double limit);
  // While attached: checks that a request means this program.
  absl::Status check_is_meant(const RequestedProcess& asked) const;
  // Time for which a request for a rate waits for the target, while attached.
  static constexpr std::chrono::milliseconds kRatePatience{500};
  absl::Status set_rate(const RateRequest& request);
  // Source for a snapshot of the heap, while attached. kFailedPrecondition, in one line, if none
  // can be taken now.
  absl::StatusOr<HeapSource> heap_source();
  // While attached: unset if the native heap is not profiled. Any thread.
  std::optional<ResidencyTarget> residency_target() const;
  // While attached: its modules' values, for any thread.
  std::shared_ptr<ValueProgram> values();
  // Begins to undo everything; the session ends soon, when all events of the target have been
  // processed. The message is shown then. still_asked: the request remains, so that the next
  // memprofd resumes the target.
  void detach(std::string message, bool still_asked);

  // While kEnded.
  bool has_counts() const { return target_pipeline_ != nullptr; }
  // Null if nothing was ever counted.
  const std::shared_ptr<TargetPipeline>& target_pipeline() const { return target_pipeline_; }
  std::chrono::steady_clock::time_point ended_at() const { return ended_at_; }
  // Stops showing its counts.
  void forget();
  // A target of the previous memprofd could not be resumed and has ended with its counts. The next
  // memprofd tries again, unless why is kNotFound: the program has gone, or kCancelled: it was
  // detached.
  void cannot_resume(const absl::Status& why);

  // Counts a child that is not followed. Returns true if it is the first for this reason.
  bool skip_child(SkippedChildren::Reason reason) { return skipped_children_.add(reason); }

 private:
  using TargetInspection = Inspection<absl::StatusOr<PreparedTarget>>;
  using InspectionFunction = std::function<absl::StatusOr<PreparedTarget>(std::stop_token)>;

  // Exists from the end of the inspection to the end of the session.
  struct Attached {
    std::shared_ptr<AttachedTarget> target;
    std::shared_ptr<OcamlSymbolizer> symbolizer;
    PluginFollower plugins;
    std::optional<TargetOverhead> overhead;  // not in observe mode
    std::shared_ptr<ValueProgram> values;    // null until the first question
    std::string why_observed;                // one line, in observe mode
    bool follows_native_heap = false;
    std::string why_no_native_heap;  // one line
    std::string why_rate;            // reason of a rate change by the budget, for the log
    std::string why_ended;           // why the previous session ended by itself; as logged
    CpuBound::Use cpu;
    std::uint64_t cpu_ns = 0;  // memprofd's CPU time for the target at the end of the last window
    double cpu_limit = 0;
    bool slowed = false;
    bool logged_exhausted = false;
    bool logged_memory_full = false;
    TimePoint sampling_since;
    TimePoint lost_since;  // since when a thread that the attach needed is missing; unset: none is
    TimePoint checked_at;  // time of the last check by tick_when_due(), and its result
    std::uint64_t checked_cpu_ns = 0;
    std::uint64_t checked_records = 0;
    TimePoint owner_seen_at;
    TimePoint kept_alive_at;
    std::uint64_t alive_cpu_ns = 0;  // CPU time of the program just before that
    ObservedSilence silence;         // silence of its memory
    // In kStopping: the final state, and the time limit for the agent to stop.
    TargetState end_state = TargetState::kDetached;
    std::string end_message;
    ProgramEnd how_ended;
    bool still_asked = false;
    TimePoint stops_until;  // end of the time for the agent to stop
    // done when the events before the target's end have been processed
    std::future<void> caught_up;
  };

  struct PendingAnswer {
    State wanted;
    std::chrono::milliseconds patience;
    SessionAnswer answer;
    std::optional<TimePoint> until = std::nullopt;  // the inspection does not count
  };

  TargetController(SessionOptions options, const SessionContext& context)
      : options_(std::move(options)), context_(context) {}

  void enter(State state);
  absl::Status inspect(InspectionFunction inspection);
  absl::Status begin(PreparedTarget prepared);
  static ProgramIdentity identity_of(const Target& target);
  absl::Status check_resumes(const Target& target) const;
  absl::Status about(const absl::Status& status) const;
  void use(PreparedTarget prepared, double rate);
  absl::Status start_session(double rate);
  Attached end_attached(TargetState state, const std::string& message);
  void observe_instead(const std::string& why_no_agent);
  void stop(TargetState state, std::string message, std::chrono::milliseconds patience);
  void end(TargetState state, std::string message);
  void detach_inspection();
  void refuse(const absl::Status& why);
  absl::StatusOr<TargetInfo> result(State wanted) const;

  // Periodic work: start sampling, check that the target still samples, keep it within its budget,
  // and detect its plugins, its children and its end.
  bool at_rest();
  void watch();
  void keep_pace();
  bool running() const { return state_ == State::kWaiting || state_ == State::kSampling; }
  void continue_stopping();
  void advance();
  void end_attach(const absl::Status& why);
  void show_progress();
  void check_probes();
  void note_children();
  void end_exited();
  void end_program(const ProgramEnd& how, const char* when = "");
  void keep_lease();
  void find_owner();
  void keep_alive();
  void watch_native_heap();
  std::string sampling_text() const;
  void log_slowed(bool slowed) const;
  std::string why_changed(OverheadBudget::Change change, bool was_held) const;
  void show_overhead();
  void keep_to_budget();
  void start_again(double rate);

  const SessionOptions options_;
  const SessionContext& context_;
  State state_ = State::kEnded;
  TickPace pace_;
  std::optional<uid_t> owner_;
  std::optional<TargetInspection> inspection_;
  std::optional<Attached> attached_;
  std::shared_ptr<TargetPipeline> target_pipeline_;
  ProfileSnapshotPtr resumes_from_;             // until it samples; or null
  std::string why_no_agent_;                    // the agent was in the program but could not sample
  TimePoint inspect_until_ = TimePoint::max();  // earlier once detached: time limit to end
  std::vector<PendingAnswer> pending_answers_;
  SkippedChildren skipped_children_;  // children skipped since the attach
  TimePoint requested_at_ = Clock::now();
  TimePoint ended_at_;
};

}  // namespace memprofd
