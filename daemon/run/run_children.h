// SPDX-License-Identifier: Apache-2.0
// The other processes of a run: children that the program forks or starts. Each is a target with
// memory of its own.
//
//   its agent connects     a request waits on the socket
//   update()               memory is made, sent and taken; began() once its session runs
//   it ends, or calls exec ended(), after which the target is gone
//   finish()               ended() for those that still run; they continue without a session
//
// Connecting processes are not trusted: a process gets memory only if it is of the same user or a
// descendant of this process.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_share_abi.h"
#include "daemon/run/run_program.h"
#include "daemon/run/run_target.h"
#include "daemon/util/fd.h"

namespace memprofd {

class RunChildrenUser {
 public:
  virtual ~RunChildrenUser() = default;
  // The target's samples arrive from now on.
  virtual void began(RunTarget& target) = 0;
  // The target's last snapshot is complete. Called once for each target that began. forked: it runs
  // its parent's program.
  virtual void ended(RunTarget& target, bool forked) = 0;
};

// Owned by one thread.
class RunChildren {
 public:
  static constexpr std::size_t kMaxTargets = 256;        // at the same time
  static constexpr std::size_t kMaxWaiting = 256;        // connections without a request
  static constexpr std::size_t kMaxNames = 64;           // of processes that are not profiled
  static constexpr std::uint64_t kRingBytes = 4u << 20;  // only used pages cost memory

  // Number of processes, by program and reason.
  using NotProfiled = std::map<std::pair<std::string, std::string>, std::uint64_t>;

  // programs and user must outlive this object. kResourceExhausted: no socket can be created.
  static absl::StatusOr<std::unique_ptr<RunChildren>> create(const ShareOptions& options,
                                                             RunPrograms& programs,
                                                             RunChildrenUser& user);

  // The value of MEMPROF_SHARE_SOCKET for the program.
  const std::string& socket_name() const { return name_; }
  // Readable when a process waits for an update().
  int descriptor() const { return ready_.get(); }
  void update();
  void finish();

  const NotProfiled& not_profiled() const { return not_profiled_; }
  // Number of other unprofiled processes: of further programs, or not of this run.
  std::uint64_t unnamed() const { return unnamed_; }

 private:
  struct Waiting {
    UniqueFd connection;
    ucred peer;
    std::uint64_t since_ns;  // CLOCK_MONOTONIC
  };
  struct Child {
    int pid;
    UniqueFd pidfd;  // none before Linux 5.3
    std::unique_ptr<RunTarget> target;
    bool forked = false;
    bool began = false;
  };

  RunChildren(std::string name, UniqueFd listener, UniqueFd ready, const ShareOptions& options,
              RunPrograms& programs, RunChildrenUser& user);
  void accept_all();
  // Returns true if the request has been answered, or never will be.
  bool serve(Waiting& waiting);
  void start(const Waiting& waiting, const memprof_share_request& request);
  void refuse(const std::string& program, const std::string& reason);
  void read(Child& child);
  void end(Child& child, const ProgramEnd& how);
  static bool has_ended(const Child& child);

  const std::string name_;
  const UniqueFd listener_, ready_;
  const ShareOptions options_;
  RunPrograms& programs_;
  RunChildrenUser& user_;
  std::vector<Waiting> waiting_;
  std::vector<Child> children_;
  NotProfiled not_profiled_;
  std::uint64_t unnamed_ = 0;
};

}  // namespace memprofd
