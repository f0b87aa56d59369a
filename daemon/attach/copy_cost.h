// SPDX-License-Identifier: Apache-2.0
// What a copy of a program will cost it, told before anything is done to it. The program stands
// still while the kernel copies the tables of its anonymous pages: as many entries as there are
// small pages, and nearly nothing for huge ones. After that each page costs memory that the program
// writes while the copy lives.
//
//     pause = (anonymous bytes - bytes in huge pages) / 4 KiB * seconds a page
//
// That is the kernel's time when nothing else runs: on a busy machine three times as much was seen.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

struct CopyCost {
  std::uint64_t anonymous_bytes = 0;  // all of them may have to be there twice in the end
  std::uint64_t huge_bytes = 0;       // of those, in huge pages
  double pause_seconds = 0;
};

// The parser of /proc/PID/smaps_rollup; total on any text. kDataLoss when it does not say.
absl::StatusOr<CopyCost> parse_smaps_rollup(std::string_view text);

// Takes as long as the kernel needs to look at the mappings, tens of milliseconds a GB; the program
// waits only if it maps or unmaps memory meanwhile. Errors as of ProcFs.
absl::StatusOr<CopyCost> predict_copy_cost(int pid, double seconds_per_page,
                                           const ProcFs& proc = ProcFs());

// How long this machine takes for a small page: the fastest of some copies of a process of our own.
// kResourceExhausted when that cannot be had.
absl::StatusOr<double> measure_seconds_per_page();

// kOutOfRange, in one line with the remedy, when that is longer than is allowed.
absl::Status check_pause(int pid, const CopyCost& cost, double max_pause_seconds);

}  // namespace memprofd
