// SPDX-License-Identifier: Apache-2.0
// A program that shares its agent's memory, as a target: the pipeline, history and snapshots of the
// daemon's targets, without a kernel side.
//
//   the program starts      no process has taken the memory: update() does nothing
//   its agent takes it      update() finds the program's file, names and runtime; events are read
//                           from now on, and earlier ones are in the ring
//   it ends                 finish(): unfinished batches, the last window, the final snapshot
//
// Each child of the program is a target of its own (run_children.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/model/program_end.h"
#include "daemon/pipeline/event_tap.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/sample_sites.h"
#include "daemon/run/run_program.h"
#include "daemon/run/runtime_counters.h"
#include "daemon/run/shared_agent.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Owned by one thread; any thread may request snapshots.
class RunTarget final : public SnapshotSource {
 public:
  // program: path of the file that is about to start; it may start another one (a script). comm:
  // name of the target. programs must outlive the target.
  static absl::StatusOr<std::unique_ptr<RunTarget>> create(RunPrograms& programs,
                                                           const std::string& program,
                                                           std::string comm,
                                                           const ShareOptions& options);
  // For a process that has requested memory and waits for it.
  static absl::StatusOr<std::unique_ptr<RunTarget>> create(RunPrograms& programs, int pid,
                                                           std::shared_ptr<RunProgram> program,
                                                           const ShareOptions& options);

  // Takes a running process that shares its agent's memory; requests the session.
  static absl::StatusOr<std::unique_ptr<RunTarget>> attach(RunPrograms& programs, int pid,
                                                           SharedAgent agent, double rate);

  // Descriptor of the shared memory, which the program inherits or receives.
  int descriptor() const { return agent_.descriptor(); }
  // Finds the process that has taken the memory; later calls read new events and close due windows
  // of the history. A recording of events can start in between.
  void update();
  // Publishes a snapshot of the events read so far, while the program runs.
  void refresh();
  // Ends the session of a program that still runs, which continues without one. The time of the
  // target ends here, or with a later event: an idle program's agent takes a while to stop.
  void withdraw();
  // Call it after a last update(), once the started program has ended.
  void finish(const ProgramEnd& end);
  // Call it instead of finish() if the program continues, after withdraw().
  void detach();
  // True once the agent has ended the session.
  bool stopped() const;
  // Why the session of a running program does not begin, or has ended before withdraw(): the rest
  // of a sentence that starts with the program. Empty: it runs, or waits.
  std::string why_not_sampling() const;

  // Seconds for which samples have been taken; 0 before.
  double sampled_seconds() const;
  // Lower bound of the words allocated while the program was sampled, from the runtime's counters;
  // they may have been read shortly before its end. nullopt: they cannot be read.
  std::optional<double> allocated_words() const;
  // True if the agent has announced the session.
  bool sampling() const { return begun() && pipeline_->announced(generation_); }
  // True if a program's agent has taken the memory and events can be read.
  bool begun() const { return pipeline_ != nullptr; }
  // Why a program whose agent has taken the memory cannot be profiled, in one line; otherwise
  // empty.
  const std::string& problem() const { return problem_; }
  // 0 until begun().
  int pid() const { return pid_; }
  const std::string& comm() const { return comm_; }
  // Set once begun().
  RunProgram& program() const { return *program_; }
  std::uint64_t load_bias() const { return load_bias_; }
  const SharedAgent& agent() const { return agent_; }
  double rate() const { return rate_; }  // samples per word
  std::shared_ptr<Symbolizer> symbolizer() const { return symbolizer_; }
  // Finds the sites of live blocks, after it has read all events so far. Another thread may call it
  // while the owner waits.
  SampleSites sites_of(const std::vector<SampleId>& numbers);

  // kNotFound until begun().
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override;
  std::vector<ProfileSnapshotPtr> snapshots() override;

 private:
  RunTarget(RunPrograms& programs, SharedAgent agent, std::string comm, double rate);
  void end(TargetState state, const std::string& message);
  // Called when the agent has taken the memory.
  void begin(const ShareTaker& taker);
  absl::Status begin_pipeline(const ShareTaker& taker);
  void read_counters();
  void note_words_before();
  bool has_lapsed() const;
  // CLOCK_MONOTONIC: when the lease last ended, because we were stopped; 0: never.
  std::uint64_t lapsed_ns() const;
  // CLOCK_MONOTONIC: when sampling ended although the program runs; 0: it goes on.
  std::uint64_t ended_ns() const;
  std::uint64_t end_or_now_ns() const;
  void count_agent_drops();
  void close_window();
  bool window_is_due() const;
  void publish(TargetState state, const std::string& message);

  RunPrograms& programs_;
  SharedAgent agent_;
  const std::string comm_;
  const double rate_;
  std::uint64_t began_ns_;               // CLOCK_REALTIME
  std::shared_ptr<RunProgram> program_;  // until begin(): null, or the file that is about to start
  bool is_certain_ = false;              // program_ is known to be that file
  bool awaits_session_ = false;          // of a running program: it has not begun yet
  std::uint32_t generation_ = 1;         // of the one session
  std::uint64_t load_bias_ = 0;
  std::string problem_;
  int pid_ = 0;
  std::string exe_, version_, capture_;
  ProgramEnd end_;
  std::optional<RuntimeCounters> counters_;  // nothing: they cannot be read
  GcStats gc_;                               // as last read
  AgentStatus first_status_;  // of an agent that was there before; its counts are subtracted
  // Words that the program had allocated when sampling began; unset: unknown.
  std::optional<double> words_before_;
  std::shared_ptr<Symbolizer> symbolizer_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<EventTap> tap_;
  History history_;
  // CLOCK_MONOTONIC.
  std::uint64_t renewed_ns_ = 0;
  std::uint64_t lapsed_ns_ = 0;     // lapsed_ns() before the last renewal
  std::uint64_t withdrawn_ns_ = 0;  // 0: not yet

  Mutex mutex_;
  ProfileSnapshotPtr published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
