// SPDX-License-Identifier: Apache-2.0
// Reads /proc about a process. Every answer is a snapshot that may be stale when it arrives; pid
// and start time together identify a process.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memprofd {

// Fields of /proc/PID/status or /proc/PID/task/TID/status.
struct ProcessStatus {
  char state = '?';  // R, S, D, T (stopped), t (traced), Z, X
  int tgid = 0;
  int tracer_pid = 0;  // 0: not traced
  int threads = 0;
  bool has_memory = false;         // neither a kernel thread nor exiting
  std::vector<int> ns_pids;        // host numbering first, innermost namespace last
  int seccomp = 0;                 // 0 off, 1 strict, 2 filter
  int seccomp_filters = 0;         // how many; 0 also before Linux 5.9
  std::uint64_t capabilities = 0;  // the effective ones; bit n is capability n
  std::uint64_t permitted_capabilities = 0;
  std::array<uid_t, 3> uids = {};  // real, effective, saved
  std::array<gid_t, 3> gids = {};
  bool shadow_stack = false;          // return addresses are checked by the processor (x86)
  std::uint64_t signals_blocked = 0;  // bit n - 1 is signal n
  std::uint64_t signals_ignored = 0;
  std::uint64_t signals_caught = 0;
  std::uint64_t switches = 0;  // number of times that a thread left its processor

  // True for a process that only waits to be reaped.
  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

// The system call in which a thread sleeps (/proc/PID/task/TID/syscall).
struct SleepingCall {
  long number = -1;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0;
  std::uint64_t program_counter = 0;  // behind its instruction
  bool operator==(const SleepingCall&) const = default;
};

// A line of /proc/PID/maps.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t device = 0;  // makedev(); 0 without a file
  std::uint64_t inode = 0;   // 0 without a file
  bool readable = false;
  bool writable = false;
  bool executable = false;
  std::string path;  // as in maps: may end in " (deleted)", be "[heap]", or be empty
};

// Errors: kNotFound when there is no such process or thread (any more),
// kPermissionDenied when the kernel refuses, kDataLoss when the text is not
// what /proc prints.
class ProcFs {
 public:
  explicit ProcFs(std::string root = "/proc") : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  // "ROOT/PID/NAME"
  std::string path(int pid, std::string_view name) const;

  absl::StatusOr<ProcessStatus> status(int pid) const;
  absl::StatusOr<ProcessStatus> status_of_self() const;
  // True if a process, or a thread by its own id, exists and has not ended.
  bool exists(int pid) const;
  absl::StatusOr<ProcessStatus> thread_status(int pid, int tid) const;
  // nullopt if the thread is not sleeping, or not in a system call. Otherwise it is off its
  // processor, which state S alone does not guarantee.
  absl::StatusOr<std::optional<SleepingCall>> sleeping_call(int pid, int tid) const;
  // Time at which the thread was last scheduled or accounted for, in milliseconds by the clock of
  // its processor. kFailedPrecondition: this kernel does not report it.
  absl::StatusOr<double> last_run_ms(int pid, int tid) const;
  // The processor on which the thread runs, or ran last.
  absl::StatusOr<std::uint64_t> last_processor(int pid, int tid) const;
  absl::StatusOr<int> parent(int pid) const;
  // Clock ticks since boot (field 22 of stat).
  absl::StatusOr<std::uint64_t> start_time(int pid) const;
  // Address range of the environment with which the program was started; both 0 if not allowed.
  absl::StatusOr<std::pair<std::uint64_t, std::uint64_t>> environment_range(int pid) const;
  absl::StatusOr<std::string> comm(int pid) const;
  // Target of the exe link; kFailedPrecondition if there is none, as for kernel threads.
  absl::StatusOr<std::string> exe(int pid) const;
  absl::StatusOr<std::vector<Mapping>> maps(int pid) const;
  // Maximum number of mappings of a process (vm.max_map_count); 0: unknown.
  std::uint64_t max_mappings() const;
  // Thread ids, ascending.
  absl::StatusOr<std::vector<int>> tasks(int pid) const;
  // True if CLOCK_MONOTONIC of the process differs from ours (time_namespaces(7)).
  bool has_other_clock(int pid) const;

 private:
  absl::StatusOr<std::string> read_file(int pid, std::string_view name) const;

  std::string root_;
};

// The parsers that ProcFs uses; they accept any text.
absl::StatusOr<ProcessStatus> parse_status(std::string_view text);
std::optional<SleepingCall> parse_sleeping_call(std::string_view text);
// se.exec_start of sched.
std::optional<double> parse_last_run(std::string_view sched);
// A numeric field of stat by its number in proc(5), from 4 on.
absl::StatusOr<std::uint64_t> parse_stat_field(std::string_view stat, int field);
// Skips lines that are not mappings.
std::vector<Mapping> parse_maps(std::string_view text);
// The value of a variable in an environment, whose entries end in NUL; empty if it is not set.
std::string variable_of(std::string_view environment, std::string_view name);

// A failed system call on a process as a Status: ESRCH and ENOENT become
// kNotFound, EPERM and EACCES kPermissionDenied with the remedy.
absl::Status process_error(int pid, int error, std::string_view action);

}  // namespace memprofd
