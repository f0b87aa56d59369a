// SPDX-License-Identifier: Apache-2.0
// Calls of chosen functions of a program, counted by probes in its code for as long as this lives.
//
// The program need not be a target, and no agent enters it. It stops by itself when the probes
// were hit more often than was granted, and when the program ends or becomes another one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/call_probes.h"
#include "daemon/calls/call_times.h"
#include "daemon/discover/target.h"

namespace memprofd {

// Default limit for the hits per second of all probes together. A hit costs the program 1 us if the
// kernel emulates the probed instruction, otherwise 10 us.
inline constexpr std::uint64_t kUsualMaxCallHits = 20'000;

struct CallsRequest {
  std::string pattern;         // RE2, found anywhere in the function's name
  std::uint64_t max_hits = 0;  // a second; 0: kUsualMaxCallHits
  bool with_time = false;      // probes also where the functions are left
};

struct FunctionCalls {
  std::string name;
  std::uint64_t address = 0;  // in the program's file
  std::uint64_t calls = 0;
  std::string why_uncounted;  // a few words; empty: it is counted
  std::string why_untimed;    // a few words; empty: times has them, if requested
  CallTimes times;
};

struct CallsReport {
  std::vector<FunctionCalls> functions;  // ordered by address
  double seconds = 0;                    // counted time
  std::uint64_t hits = 0;
  std::uint64_t costly = 0;  // functions whose probe is single-stepped
  bool with_time = false;
  std::string why_ended;  // one line; empty: it still counts
};

// Not thread-safe.
class CallTrace {
 public:
  // Probes are in place and count when it returns. Errors, one line each:
  //   kInvalidArgument      a bad pattern
  //   kNotFound             no function matches, or the program has ended
  //   kResourceExhausted    more functions match than MEMPROF_CALL_FUNCTIONS
  //   kFailedPrecondition   the program is stripped, or has replaced itself; no function that
  //                         matches can be counted
  // Otherwise the errors of CallProbes::attach().
  static absl::StatusOr<std::unique_ptr<CallTrace>> start(Target target,
                                                          const CallsRequest& request);

  // Once a report contains the reason of the end, all later ones do, with the same numbers.
  CallsReport report();

 private:
  CallTrace(Target target, std::vector<FunctionCalls> functions, const CallsRequest& request);
  absl::Status attach(const ProbeSites& sites);
  void check_program_runs(CallsReport& report);
  void read_counts(CallsReport& report) const;

  const Target target_;
  const std::vector<FunctionCalls> functions_;
  const std::uint64_t max_hits_;
  const bool with_time_;
  std::uint64_t costly_ = 0;
  std::unique_ptr<CallProbes> probes_;
  std::uint64_t began_ns_ = 0;  // CLOCK_MONOTONIC
  CallsReport last_;            // once it contains the reason of the end
};

}  // namespace memprofd
