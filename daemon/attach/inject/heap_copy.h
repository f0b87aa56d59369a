// SPDX-License-Identifier: Apache-2.0
// A copy of a target, made at its safe point to be read at leisure: a child of the target that
// never runs anything but the agent's code, traced by us from before its first instruction on.
//
//     borrowed thread      agent's function: clone ---> back in the program, let go
//     copy                                    stopped ---> finds roots ---> stopped ---> killed
//     memprofd                                waits, EXITKILL, lets it run    reads
//
// What can go wrong in between, and what becomes of the target then (agent-lib/snapshot.c has its
// side):
//   memprofd ends          the copy is killed (EXITKILL); before that is set it is let go, and ends
//                          by its int3. The target goes on.
//   the copy crashes       it stops before us alone, and is killed.
//   the copy does not end its search in time: it is killed.
//   the target ends        the copy is killed by the kernel (PDEATHSIG), or by us.
//   the target calls exec  the thread that called the clone ends, and with it the copy. Only if it
//   is that
//                          thread that calls exec, the copy lives on, until we are done with it.
// The copy stays a zombie of the target's until the agent takes leave of it, at the end of the next
// minor collection; after an exec, until the program ends.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_snapshot_abi.h"
#include "daemon/attach/inject/borrowed_thread.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/target.h"

namespace memprofd {

// What of an agent takes part; addresses in the process.
struct CopyAgent {
  std::uint64_t block = 0;     // memprof_snapshot
  std::uint64_t function = 0;  // memprof_agent_snapshot
};

// In the agent's file, whose memprof_agent_control is at that address in the process.
// kFailedPrecondition, in one line: it is of a version without.
absl::StatusOr<CopyAgent> find_copy_agent(const ElfFile& file, std::uint64_t control_address);

// A stopped child of a target, traced by the thread that created this object and destroys it.
class CopyProcess {
 public:
  explicit CopyProcess(pid_t pid) : pid_(pid) {}
  ~CopyProcess();  // kills it
  CopyProcess(CopyProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  CopyProcess& operator=(CopyProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // It ends when we do, however that comes.
  absl::Status bind();
  // Lets it run to its int3. kDeadlineExceeded, or kAborted when it stops or ends otherwise.
  absl::Status run_to_breakpoint(std::chrono::milliseconds patience);

 private:
  void kill() const;
  // Nothing when the time is over.
  std::optional<int> wait_status(std::chrono::milliseconds patience);

  pid_t pid_;
};

class HeapCopy {
 public:
  // Before the thread is borrowed: tells the agent what it has to know. kFailedPrecondition, in one
  // line, when no copy can be made of this target.
  static absl::Status prepare(const Target& target, const CopyAgent& agent);

  // On the thread that traces the borrowed one, which is let go in any case, unless the error is
  // kDeadlineExceeded. The copy belongs to this thread. stopped_at_ns: as of Injection::errand.
  static absl::StatusOr<HeapCopy> take(const Target& target, const CopyAgent& agent,
                                       BorrowedThread& thread, std::uint64_t stopped_at_ns);

  pid_t pid() const { return process_.pid(); }
  const MemoryReader& memory() const { return *memory_; }
  // All roots by kind, in the order of memprof_root_kind, and how many there are of each.
  std::span<const memprof_root> roots() const { return roots_; }
  std::uint64_t roots_of(memprof_root_kind kind) const { return kind_roots_[kind]; }
  std::span<const memprof_root> roots_of_kind(memprof_root_kind kind) const {
    const auto* first = kind_roots_.begin();
    return roots().subspan(std::accumulate(first, first + kind, std::uint64_t{0}),
                           kind_roots_[kind]);
  }
  // How long the borrowed thread was in the agent, and how long it stood still in all.
  std::uint64_t clone_ns() const { return clone_ns_; }
  std::uint64_t pause_ns() const { return pause_ns_; }

  static constexpr std::chrono::milliseconds kSearchPatience{2000};

 private:
  HeapCopy(CopyProcess process, std::uint64_t clone_ns, std::uint64_t pause_ns)
      : process_(std::move(process)), clone_ns_(clone_ns), pause_ns_(pause_ns) {}
  absl::Status find_roots(std::uint64_t block);

  CopyProcess process_;
  std::unique_ptr<TargetMemory> memory_;
  std::uint64_t clone_ns_;
  std::uint64_t pause_ns_;
  std::vector<memprof_root> roots_;
  std::array<std::uint64_t, MEMPROF_ROOT_KINDS> kind_roots_{};
};

}  // namespace memprofd
