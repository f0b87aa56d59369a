// SPDX-License-Identifier: Apache-2.0
// Sums the counts of all ended processes of one program into one target without a history.
//
// Forked children start with the same random numbers, so those that do the same work have the same
// samples and the same error. Their errors are therefore added as if all were equal, not
// independent: the variance for n forked children is n times the sum of theirs, which is the
// maximum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/aggregate/callstack_table.h"
#include "daemon/history/snapshot.h"
#include "daemon/run/run_program.h"

namespace memprofd {

// Owned by one thread.
class ProgramSum final : public SnapshotSource {
 public:
  // kFailedPrecondition: the program's names cannot be read.
  static absl::StatusOr<std::unique_ptr<ProgramSum>> create(std::shared_ptr<RunProgram> program);

  // Adds the last snapshot of a process. words: RunTarget::allocated_words().
  void add(const ProfileSnapshot& process, std::uint64_t load_bias, bool forked,
           std::optional<double> words);

  std::uint64_t processes() const { return processes_; }
  // The sum of the processes' words; nothing: some are unknown.
  std::optional<double> allocated_words() const { return allocated_words_; }
  // The highest peak of live memory in any process, and the pid of that process.
  const Estimate& largest_peak() const { return largest_peak_; }
  int pid_of_largest() const { return pid_of_largest_; }

  // Returns the sum under the pid of the first process, whatever pid is requested.
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override;
  std::vector<ProfileSnapshotPtr> snapshots() override;

 private:
  ProgramSum(std::shared_ptr<RunProgram> program, std::shared_ptr<Symbolizer> names)
      : program_(std::move(program)), names_(std::move(names)) {}
  CallstackId callstack(const Callstack& of_process, std::uint64_t load_bias);

  const std::shared_ptr<RunProgram> program_;
  const std::shared_ptr<Symbolizer> names_;
  ProfileSnapshot sum_;  // without the members that point into this object
  CallstackTable callstacks_;
  absl::flat_hash_map<AllocClass, std::size_t> rows_;  // indices of sum_.rows
  std::uint64_t processes_ = 0, forked_ = 0;
  std::optional<double> allocated_words_ = 0;
  Estimate largest_peak_;
  int pid_of_largest_ = 0;
};

}  // namespace memprofd
