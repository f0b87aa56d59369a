// SPDX-License-Identifier: Apache-2.0
// A program that shares its agent's memory, as a target: the pipeline, history and snapshots of the
// daemon's targets, without a kernel side.
//
//   the program starts      nobody has taken the memory: update() does nothing
//   its agent takes it      update() finds the program's file, names and runtime; events are read
//                           from here on, those before are in the ring
//   it ends                 finish(): unfinished batches, the last window, the final snapshot
//
// A child of it is a target of its own (run_children.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/model/program_end.h"
#include "daemon/pipeline/event_tap.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/run/run_program.h"
#include "daemon/run/runtime_counters.h"
#include "daemon/run/shared_agent.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Owned by one thread; any thread may ask for snapshots.
class RunTarget final : public SnapshotSource {
 public:
  // program: the path of the file that is about to start; it may turn out to be another one
  // (a script). comm: what the target is called. programs must outlive the target.
  static absl::StatusOr<std::unique_ptr<RunTarget>> create(RunPrograms& programs,
                                                           const std::string& program,
                                                           std::string comm,
                                                           const ShareOptions& options);
  // Of a process that asks for memory and waits for it.
  static absl::StatusOr<std::unique_ptr<RunTarget>> create(RunPrograms& programs, int pid,
                                                           std::shared_ptr<RunProgram> program,
                                                           const ShareOptions& options);

  // Takes a process that runs already and shares its agent's memory; requests the session.
  static absl::StatusOr<std::unique_ptr<RunTarget>> attach(RunPrograms& programs, int pid,
                                                           SharedAgent agent, double rate);

  // For the program to inherit, or to be sent to.
  int descriptor() const { return agent_.descriptor(); }
  // Finds the process that has taken the memory; later calls read new events and close due windows
  // of the history. A recording of events can start in between.
  void update();
  // While it runs: snapshots have what has come so far.
  void refresh();
  // Before finish() if the program still runs: it continues without a session.
  void withdraw() { agent_.end_session(); }
  // The program that was started has ended; after a last update().
  void finish(const ProgramEnd& end);
  // The same of a program that continues, after withdraw().
  void detach();
  // True once the agent has been told to stop and has, or its program is gone.
  bool stopped() const;
  // The reason why the session of a running program does not begin, or has ended; empty: it runs,
  // or waits.
  std::string why_not_sampling() const;

  // True if some data of the session has come.
  bool sampling() const { return begun() && pipeline_->announced(generation_); }
  // True if a program's agent has taken the memory and events can be read.
  bool begun() const { return pipeline_ != nullptr; }
  // One line when it has, and cannot be profiled all the same; else empty.
  const std::string& problem() const { return problem_; }
  // 0 until begun().
  int pid() const { return pid_; }
  const std::string& comm() const { return comm_; }
  // Since begun().
  RunProgram& program() const { return *program_; }
  std::uint64_t load_bias() const { return load_bias_; }
  const SharedAgent& agent() const { return agent_; }

  // kNotFound until begun().
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override;
  std::vector<ProfileSnapshotPtr> snapshots() override;

 private:
  RunTarget(RunPrograms& programs, SharedAgent agent, std::string comm, double rate);
  void end(TargetState state, const std::string& message);
  // The agent has taken the memory.
  void begin(const ShareTaker& taker);
  absl::Status begin_pipeline(const ShareTaker& taker);
  void read_counters();
  void close_window();
  bool window_is_due() const;
  void publish(TargetState state, const std::string& message);

  RunPrograms& programs_;
  SharedAgent agent_;
  const std::string comm_;
  const double rate_;
  const std::uint64_t began_ns_;         // CLOCK_REALTIME
  std::shared_ptr<RunProgram> program_;  // until begin(): null, or the file that is about to start
  bool is_certain_ = false;              // it is that one
  bool requests_session_ = false;        // which the agent does not begin by itself
  std::uint32_t generation_ = 1;         // of the one session
  std::uint64_t load_bias_ = 0;
  std::string problem_;
  int pid_ = 0;
  std::string exe_, version_, capture_;
  ProgramEnd end_;
  std::optional<RuntimeCounters> counters_;  // nothing: they cannot be read
  GcStats gc_;                               // as last read
  std::shared_ptr<Symbolizer> symbolizer_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<EventTap> tap_;
  History history_;
  std::uint64_t renewed_ns_ = 0;  // CLOCK_MONOTONIC

  Mutex mutex_;
  ProfileSnapshotPtr published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
