// SPDX-License-Identifier: Apache-2.0
// Verifies the assertions (module Memprof_check) of a program that this process has started, in
// heap snapshots at its end and wherever its code requests one.
//
//   the program   waits in a system call; its check_point is set
//   update()      makes a copy of it by ptrace alone, writes a heap file to memory, checks the
//                 image, and answers; the program continues
//
// Needs no privileges: the program is a descendant of this process and of the same user.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/discover/target.h"
#include "daemon/model/program_end.h"
#include "daemon/run/run_target.h"
#include "daemon/snapshot/answers/assertion_check.h"

namespace memprofd {

// True if a program may make assertions: its file has the library's registry.
bool may_assert(const std::string& path);

// Owned by the thread that owns the RunTarget.
class CheckedProgram {
 public:
  // Reads a complete heap file, with types of the source if they are found.
  using ReadImage = std::function<absl::StatusOr<HeapImage>(const std::string& path)>;

  // agent: the file that the program loads. quantile: as for check_assertions().
  CheckedProgram(AgentFile agent, double quantile, ReadImage read)
      : agent_(std::move(agent)), quantile_(quantile), read_(std::move(read)) {}

  // Verifies the assertions if the program waits for that. Call it repeatedly.
  void update(RunTarget& run);
  // Call it after the program's end, which may have come before any update().
  void finish(const RunTarget& run);

  // Valid after the program's end. An assertion that was violated once counts as violated.
  const std::vector<AssertionOutcome>& outcomes() const { return outcomes_; }
  // The reason why assertions were not checked, in one line; empty: all were, or there are none.
  std::string why_not_checked(const ProgramEnd& end) const;

 private:
  // The program waits for the answer at most this long.
  static constexpr std::uint64_t kLeaseNs = 120'000'000'000;

  void find_assertions(const RunTarget& run);
  void find_program(const RunTarget& run);
  void note_assertions(std::uint32_t slots);
  absl::Status verify(RunTarget& run);
  absl::StatusOr<HeapImage> take(RunTarget& run) const;
  void merge(std::vector<AssertionOutcome> outcomes);

  const AgentFile agent_;
  const double quantile_;
  const ReadImage read_;
  std::optional<bool> may_assert_;  // its file has the library; nothing: not known yet
  std::optional<Target> program_;
  std::uint32_t slots_ = 0;  // number of slots of its registry read so far
  bool has_assertions_ = false;
  std::uint64_t answered_ = 0;  // number of the last answered point
  std::string problem_;
  std::vector<AssertionOutcome> outcomes_;
};

}  // namespace memprofd
