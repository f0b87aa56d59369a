// SPDX-License-Identifier: Apache-2.0
// A copy of a target, made at its safe point and read afterwards: a child of the target that runs
// only the agent's code, traced by us from before its first instruction.
//
// A copy can also be made while the program waits (waiting_program.h). It then first takes the
// runtime lock, as its thread would when the system call returns. Such a copy is discarded if
// another thread has run meanwhile, or if it does not find its roots, because its thread may not be
// an OCaml thread.
//
//     borrowed thread      agent's function: clone ---> back in the program, released
//     copy                                    stopped ---> finds roots ---> stopped ---> killed
//     memprofd                                waits, EXITKILL, resumes it     reads
//
// Faults in between, and their effect (agent-lib/snapshot.c has its side):
//   memprofd ends          the copy is killed (EXITKILL). Before that option is set, it is released
//                          and ends by its int3. The target continues.
//   the copy crashes       it stops for us alone, and is killed.
//   the search for roots   the copy is killed.
//   takes too long
//   the borrowed thread    before the roots are found: the kernel kills the copy (PDEATHSIG), and
//   ends                   there is no snapshot. Later: no effect.
//   the target ends, or    the same. The requester of the copy notices it, and drops the copy.
//   calls exec
//
// The copy remains a zombie child of the target until the agent reaps it at the end of the next
// minor collection, or, after an exec, until the program ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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
#include "daemon/util/fd.h"

namespace memprofd {

// The agent's functions and data for a copy, as addresses in the process.
struct CopyAgent {
  std::uint64_t block = 0;         // memprof_snapshot
  std::uint64_t function = 0;      // memprof_agent_snapshot
  std::uint64_t waiting = 0;       // memprof_agent_snapshot_waiting; 0: the agent is too old
  std::uint64_t point = 0;         // memprof_agent_at_point
  std::uint64_t point_offset = 0;  // offset of `point` in the agent's file
  std::uint64_t sample_point = 0;  // memprof_sample_point; 0: the agent is too old
  std::uint64_t hold = 0;          // memprof_agent_hold
};

// Finds them in the agent's file. control_address: memprof_agent_control in the process.
// kFailedPrecondition, in one line: this version of the agent has none.
absl::StatusOr<CopyAgent> find_copy_agent(const ElfFile& file, std::uint64_t control_address);

// A stopped child of a target, traced by the thread that creates this object and destroys it. In a
// hostile program it may be a thread, or its pid may pass to another process. So it is killed only
// through its descriptor.
class CopyProcess {
 public:
  explicit CopyProcess(pid_t pid);
  ~CopyProcess();  // kills the process; anything else is released
  CopyProcess(CopyProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)) {}
  CopyProcess& operator=(CopyProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Makes the kernel kill the copy whenever this process ends. kAborted: it is gone or not a
  // process.
  absl::Status bind();
  // Runs the copy to its int3. kDeadlineExceeded: not in time; kAborted: it stops or ends
  // otherwise. meanwhile is called repeatedly.
  absl::Status run_to_breakpoint(
      std::chrono::milliseconds patience, const std::function<void()>& meanwhile = [] {});

 private:
  void kill() const;
  // Returns nothing if time is up.
  std::optional<int> wait_status(
      std::chrono::milliseconds patience, const std::function<void()>& meanwhile = [] {});

  pid_t pid_;  // 0: it has ended or is no longer ours
  UniqueFd pidfd_;
};

// Roots that one scanner of the runtime has found.
struct RootSection {
  memprof_root_kind kind = MEMPROF_ROOT_MODULE;
  std::uint32_t domain = 0;  // index in HeapCopy::states()
  std::span<const memprof_root> roots;
};

// The memory of a copy, for use by one thread. Errors report a killed copy as kAborted. Most of the
// memory is in mappings without a file.
class CopyMemory final : public MemoryReader, public PieceReader, public MemoryViewer {
 public:
  // The process must not run.
  static absl::StatusOr<std::unique_ptr<CopyMemory>> open(pid_t pid);
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
  absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override;
  absl::StatusOr<std::span<const std::byte>> view(std::uint64_t address,
                                                  std::size_t bytes) const override;

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  CopyMemory(std::unique_ptr<TargetMemory> memory, std::vector<Range> without_files)
      : memory_(std::move(memory)), without_files_(std::move(without_files)) {}
  bool is_without_files(std::uint64_t address, std::size_t bytes) const;

  const std::unique_ptr<TargetMemory> memory_;
  const std::vector<Range> without_files_;  // mappings without a file, by address
  mutable std::vector<std::byte> viewed_;   // copy of a viewed part of a file mapping
};

class HeapCopy {
 public:
  // Prepares the agent before the thread is borrowed. kFailedPrecondition, in one line, if no copy
  // can be made of this target. patience: time for which the program may be paused before it is
  // copied. readable: processes of the same user may read the copy without CAP_SYS_PTRACE.
  static absl::Status prepare(const Target& target, const CopyAgent& agent,
                              std::chrono::nanoseconds patience, bool readable = false);

  // Runs on the thread that traces the borrowed one, and releases the borrowed one unless the error
  // is kDeadlineExceeded. This thread then owns the copy. stopped_at_ns: see Injection::callback.
  // kUnavailable, with a reason of a few words: try again. A waiting program cannot be copied now,
  // or the copy found no roots: a domain that was ending held a lock, or its end has ended the
  // copy.
  static absl::StatusOr<HeapCopy> take(const Target& target, const CopyAgent& agent,
                                       BorrowedThread& thread, std::uint64_t stopped_at_ns);

  pid_t pid() const { return process_.pid(); }
  const CopyMemory& memory() const { return *memory_; }
  // The states of the copy's domains; in OCaml 4 the single Caml_state.
  std::span<const std::uint64_t> states() const { return states_; }
  // All roots, in the order of memprof_root_kind.
  std::span<const RootSection> sections() const { return sections_; }
  std::span<const memprof_root> roots() const { return roots_; }  // unordered
  std::uint64_t roots_of(memprof_root_kind kind) const;
  // Time that the borrowed thread spent in the agent; total time of the pause.
  std::uint64_t clone_ns() const { return times_.clone_ns; }
  std::uint64_t pause_ns() const { return times_.pause_ns; }
  // CLOCK_MONOTONIC; the program has resumed by then.
  std::uint64_t made_at_ns() const { return times_.made_at_ns; }

  static constexpr std::chrono::milliseconds kSearchPatience{2000};

 private:
  // state: Caml_state of OCaml 4; 0 in OCaml 5.
  struct Times {
    std::uint64_t clone_ns = 0;
    std::uint64_t pause_ns = 0;
    std::uint64_t made_at_ns = 0;
  };
  HeapCopy(CopyProcess process, std::uint64_t state, const Times& times)
      : process_(std::move(process)), states_{state}, times_(times) {}
  static absl::Status call(const Target& target, const CopyAgent& agent, BorrowedThread& thread);
  absl::Status find_roots(std::uint64_t block, BorrowedThread& thread);
  absl::Status read_sections(const memprof_snapshot& block);
  absl::Status read_domains(const memprof_snapshot& block);

  CopyProcess process_;
  std::unique_ptr<CopyMemory> memory_;
  std::vector<std::uint64_t> states_;
  Times times_;
  std::vector<memprof_root> roots_;
  std::vector<RootSection> sections_;  // they refer to roots_
};

}  // namespace memprofd
