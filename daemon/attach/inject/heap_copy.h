// SPDX-License-Identifier: Apache-2.0
// A copy of a target, made at its safe point and read afterwards: a child of the target that runs
// only the agent's code, traced by us from before its first instruction.
//
// Or made while the program waits (waiting_program.h): then the copy first takes the runtime lock,
// as its thread would when its system call returns. Such a copy is discarded if another thread has
// run meanwhile, or if it does not find its roots, because its thread may not be an OCaml thread.
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
// The copy remains a zombie child of the target until the agent reaps it, at the end of the next
// minor collection; after an exec, until the program ends.
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

// The parts of an agent that take part in a copy; addresses in the process.
struct CopyAgent {
  std::uint64_t block = 0;         // memprof_snapshot
  std::uint64_t function = 0;      // memprof_agent_snapshot
  std::uint64_t waiting = 0;       // memprof_agent_snapshot_waiting; 0: it is an older one
  std::uint64_t point = 0;         // memprof_agent_at_point
  std::uint64_t point_offset = 0;  // of that, in the agent's file
};

// In the agent's file, whose memprof_agent_control is at that address in the process.
// kFailedPrecondition, in one line: it is of a version without.
absl::StatusOr<CopyAgent> find_copy_agent(const ElfFile& file, std::uint64_t control_address);

// A stopped child of a target, traced by the thread that created this object and destroys it. A
// program that lies may have made it a thread of its own, or something whose number becomes
// another's: it is killed by its descriptor alone.
class CopyProcess {
 public:
  explicit CopyProcess(pid_t pid);
  ~CopyProcess();  // kills the process; anything else is released
  CopyProcess(CopyProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)) {}
  CopyProcess& operator=(CopyProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // It ends when we do, however that comes. kAborted: it is not there, or no process.
  absl::Status bind();
  // Lets it run to its int3. kDeadlineExceeded, or kAborted when it stops or ends otherwise.
  // meanwhile: is called again and again.
  absl::Status run_to_breakpoint(
      std::chrono::milliseconds patience, const std::function<void()>& meanwhile = [] {});

 private:
  void kill() const;
  // Nothing when the time is over.
  std::optional<int> wait_status(
      std::chrono::milliseconds patience, const std::function<void()>& meanwhile = [] {});

  pid_t pid_;  // 0: it has ended, or is ours no more
  UniqueFd pidfd_;
};

// Roots that one scanner of the runtime has found.
struct RootSection {
  memprof_root_kind kind = MEMPROF_ROOT_MODULE;
  std::uint32_t domain = 0;  // by its place in HeapCopy::states()
  std::span<const memprof_root> roots;
};

// The memory of a copy; read and viewed by one thread. Errors report a killed copy as kAborted.
// Most of it is in mappings without a file.
class CopyMemory final : public MemoryReader, public PieceReader, public MemoryViewer {
 public:
  // The process does not run.
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
  const std::vector<Range> without_files_;  // by address
  mutable std::vector<std::byte> viewed_;   // of a mapping of a file
};

class HeapCopy {
 public:
  // Prepares the agent before the thread is borrowed. kFailedPrecondition, in one line, if no copy
  // can be made of this target. patience: time for which the program may be paused before it is
  // copied. readable: processes of the same user may read the copy without CAP_SYS_PTRACE.
  static absl::Status prepare(const Target& target, const CopyAgent& agent,
                              std::chrono::nanoseconds patience, bool readable = false);

  // Runs on the thread that traces the borrowed one, which is released in any case, unless the
  // error is kDeadlineExceeded. The copy belongs to this thread. stopped_at_ns: as of
  // Injection::callback. kUnavailable, a few words, for a waiting program that cannot be copied
  // now.
  static absl::StatusOr<HeapCopy> take(const Target& target, const CopyAgent& agent,
                                       BorrowedThread& thread, std::uint64_t stopped_at_ns);

  pid_t pid() const { return process_.pid(); }
  const CopyMemory& memory() const { return *memory_; }
  // The states of its domains; in OCaml 4 the one Caml_state.
  std::span<const std::uint64_t> states() const { return states_; }
  // All roots, in the order of memprof_root_kind.
  std::span<const RootSection> sections() const { return sections_; }
  std::span<const memprof_root> roots() const { return roots_; }  // in no order
  std::uint64_t roots_of(memprof_root_kind kind) const;
  // Time that the borrowed thread spent in the agent; total time of the pause.
  std::uint64_t clone_ns() const { return times_.clone_ns; }
  std::uint64_t pause_ns() const { return times_.pause_ns; }
  // CLOCK_MONOTONIC; the program has gone on by then.
  std::uint64_t made_at_ns() const { return times_.made_at_ns; }

  static constexpr std::chrono::milliseconds kSearchPatience{2000};

 private:
  // state: 0 in OCaml 5.
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
  std::vector<RootSection> sections_;  // of roots_
};

}  // namespace memprofd
