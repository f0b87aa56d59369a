// SPDX-License-Identifier: Apache-2.0
// A program that shares its agent's memory, as a target: the pipeline, history and snapshots of the
// daemon's targets, without a kernel side.
//
//   the program starts      nobody has taken the memory: update() does nothing
//   its agent takes it      update() finds the program's file, names and runtime; events are read
//                           from here on, those before are in the ring
//   it ends                 finish(): unfinished batches, the last window, the final snapshot
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/program_check.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/program_end.h"
#include "daemon/pipeline/event_tap.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/run/shared_agent.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Owned by one thread; any thread may ask for snapshots.
class RunTarget final : public SnapshotSource {
 public:
  // program: the path of the file that is about to start; it may turn out to be another one
  // (a script). comm: what the target is called.
  static absl::StatusOr<std::unique_ptr<RunTarget>> create(const std::string& program,
                                                           std::string comm,
                                                           const ShareOptions& options);

  // For the program to inherit.
  int descriptor() const { return agent_.descriptor(); }
  // Finds the process that has taken the memory; later calls read new events and close due windows
  // of the history. A recording of events can start in between.
  void update();
  // The program that was started has ended; after a last update().
  void finish(const ProgramEnd& end);

  // True if a program's agent has taken the memory and events can be read.
  bool begun() const { return pipeline_ != nullptr; }
  // One line when it has, and cannot be profiled all the same; else empty.
  const std::string& problem() const { return problem_; }
  // 0 until begun().
  int pid() const { return pid_; }
  const SharedAgent& agent() const { return agent_; }

  // kNotFound until begun().
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override;
  std::vector<ProfileSnapshotPtr> snapshots() override;

 private:
  struct Program {
    std::unique_ptr<ElfFile> file;
    OcamlProgram ocaml;
  };

  RunTarget(SharedAgent agent, std::string comm, double rate);
  static absl::StatusOr<Program> inspect_program(const std::string& path);
  // The agent has taken the memory.
  void begin(const ShareTaker& taker);
  absl::Status begin_pipeline(const ShareTaker& taker);
  absl::StatusOr<std::shared_ptr<Symbolizer>> symbolizer(const ShareTaker& taker, Program program);
  void close_window();
  bool window_is_due() const;
  void publish(TargetState state, const std::string& message);

  SharedAgent agent_;
  const std::string comm_;
  const double rate_;
  const std::uint64_t began_ns_;    // CLOCK_REALTIME
  std::string expected_path_;       // of program_
  std::optional<Program> program_;  // the file that is about to start, until begin()
  std::string problem_;
  int pid_ = 0;
  std::string exe_, version_, capture_;
  ProgramEnd end_;
  std::shared_ptr<Symbolizer> symbolizer_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<EventTap> tap_;
  History history_;
  std::uint64_t renewed_ns_ = 0;  // CLOCK_MONOTONIC

  Mutex mutex_;
  ProfileSnapshotPtr published_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
