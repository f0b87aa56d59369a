// SPDX-License-Identifier: Apache-2.0
// Attaches to programs by the names of their files, now and later, and finds the other OCaml
// programs that run. A thread of its own searches /proc. A process is examined repeatedly, because
// it may become such a program (exec).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/control/program_files.h"
#include "daemon/model/discovery.h"
#include "daemon/util/periodic_thread.h"

namespace memprofd {

// True if the pattern names the program: a pattern with a slash is compared with its whole path,
// others with the last part. exe is the target of /proc/PID/exe.
bool is_named(std::string_view exe, const std::string& pattern);

struct ProgramWatchOptions {
  std::vector<std::string> patterns;  // none: only finds out which OCaml programs run
  // Called on any thread, several at the same time. kAlreadyExists: nothing more to do.
  std::function<absl::Status(int pid, std::uint64_t start_time_ticks)> attach;
  std::string proc_root = "/proc";
  std::chrono::milliseconds interval{2000};
  // Gets what each search has found.
  std::shared_ptr<DiscoveryStore> book = std::make_shared<DiscoveryStore>();
  ProgramFiles::Examine examine = examine_program;
};

class ProgramWatch {
 public:
  explicit ProgramWatch(ProgramWatchOptions options);
  ProgramWatch(const ProgramWatch&) = delete;
  ProgramWatch& operator=(const ProgramWatch&) = delete;
  ~ProgramWatch() = default;  // waits for running attaches

 private:
  using Clock = std::chrono::steady_clock;

  // A process that a rule names.
  struct MatchedProcess {
    std::uint64_t start_time_ticks = 0;
    std::string exe;
    std::string pattern;
    std::future<absl::Status> attach;  // running, or its result was not taken yet
    int refused = 0;                   // number of refusals
    bool done = false;
    Discovery outcome = Discovery::kWaiting;
    std::string reason;       // reason of outcome
    Clock::time_point again;  // time of the next attempt
  };

  void scan();
  // Sorts a process: one that a rule names goes to still_there, another OCaml program to
  // discovered.
  void note(int pid, std::map<int, MatchedProcess>& still_there, Discoveries& discovered);
  void note_other(int pid, const std::string& exe, Discoveries& discovered);
  void publish(Discoveries discovered);
  void advance(int pid, MatchedProcess& found);
  void take_result(int pid, MatchedProcess& found);
  void note_result(int pid, MatchedProcess& found, const absl::Status& result);

  const ProgramWatchOptions options_;
  // Members of thread_:
  std::map<int, MatchedProcess> found_;
  ProgramFiles files_;
  std::uint64_t ended_early_ = 0;
  PeriodicThread thread_;
};

}  // namespace memprofd
