// SPDX-License-Identifier: Apache-2.0
// Predicts the cost of a copy of a program, before anything is done to the program. It is paused
// while the kernel copies the tables of its anonymous pages: one entry per small page, and almost
// nothing for huge ones. After that, each page that the program writes while the copy exists costs
// memory.
//
//     CPU = fixed + (anonymous bytes - bytes in huge pages) / 4 KiB * seconds per page
//     pause = CPU * stretch + wake
//
// The cost of a page and the waiting time for processors are measured with a process of our own,
// again for each prediction, because other programs come and go.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

// Results of that rehearsal, in seconds.
struct CopySpeed {
  double page_seconds = 0;   // CPU for a small page that is copied for the first time since a write
  double fixed_seconds = 0;  // CPU for the rest: the copy's process, and borrowing the thread
  double slowdown = 1;       // time for each unit of CPU, at least 1: others run on the processors
  double wake_seconds = 0;   // delay of a woken thread until it runs
};

struct CopyCost {
  std::uint64_t anonymous_bytes = 0;  // in the worst case all of them exist twice
  std::uint64_t huge_bytes = 0;       // part of them in huge pages
  double pause_seconds = 0;
};

// Parses /proc/PID/smaps_rollup; accepts any text. kDataLoss if it lacks the numbers.
absl::StatusOr<CopyCost> parse_smaps_rollup(std::string_view text);

// Takes as long as the kernel needs to read the mappings, tens of milliseconds per GB. The program
// waits only if it maps or unmaps memory meanwhile. Returns the errors of ProcFs.
absl::StatusOr<CopyCost> predict_copy_cost(int pid, const CopySpeed& speed,
                                           const ProcFs& proc = ProcFs());

// Takes about 30 ms of CPU, at the target's priority. kResourceExhausted if no process can be
// created.
absl::StatusOr<CopySpeed> rehearse_copy(int pid);

// kOutOfRange, in one line with the remedy, if the pause would be longer than allowed.
absl::Status check_pause(int pid, const CopyCost& cost, double max_pause_seconds);

}  // namespace memprofd
