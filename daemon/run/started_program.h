// SPDX-License-Identifier: Apache-2.0
// A child process that runs as it would without us: with the same standard files, terminal, process
// group and signals. Only its environment has variables for the agent, which the agent removes
// again unless children are followed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/model/program_end.h"
#include "daemon/util/fd.h"

namespace memprofd {

struct StartOptions {
  std::vector<std::string> command;  // searched for in PATH, as by a shell
  std::string agent;                 // path of the agent's library
  int share = -1;                    // the descriptor that the program inherits
  std::string children;              // RunChildren::socket_name(); empty: children are not followed
  bool checked = false;              // the program waits until its assertions are verified
};

// The path of the file that a command would run; the command itself if no such file exists.
std::string path_of_command(const std::string& command);

// While it exists, this process ignores signals that the terminal sends to both (SIGINT, SIGQUIT)
// and passes on those sent to it alone (SIGTERM, SIGHUP, SIGUSR1, SIGUSR2): the program decides. If
// the program stops itself as the job of a shell, so does this process, and resumes the program
// when it is resumed (fg).
class StartedProgram {
 public:
  // kNotFound, kPermissionDenied: exit codes 127 and 126 of a shell; kResourceExhausted: no process
  // can be created.
  static absl::StatusOr<StartedProgram> start(const StartOptions& options);
  StartedProgram(StartedProgram&&) = default;

  pid_t pid() const { return pid_; }
  // Waits; returns true if the program has ended within that time, or cannot be waited for. Returns
  // early when this descriptor becomes readable; -1: none.
  bool wait(std::chrono::milliseconds time, int descriptor = -1);
  // After its end; unknown if it could not be waited for.
  const ProgramEnd& end() const { return end_; }

 private:
  StartedProgram(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  void stop_too();

  pid_t pid_;
  UniqueFd pidfd_;
  bool was_stopped_ = false;  // when it was last waited for
  ProgramEnd end_;
};

}  // namespace memprofd
