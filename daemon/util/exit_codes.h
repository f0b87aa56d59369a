// SPDX-License-Identifier: Apache-2.0
// Exit codes of memprofd and memprofctl. Scripts rely on the numbers.
#pragma once

#include "absl/status/status.h"

namespace memprofd {

enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,          // bad option or value
  kNoProcess = 3,      // no such process or target
  kNotProfilable = 4,  // not an OCaml program that can be profiled
  kPrivileges = 5,     // privileges or kernel feature missing
  kBusy = 6,           // already profiled, or another snapshot is being taken
  kAgent = 7,          // agent file missing, unusable or of another build
  kUnavailable = 8,    // address in use; daemon not reachable, ending, or older than asked for
  kLimit = 9,          // a limit is reached, or a disk is full: try again later
};

// Lines for the end of --help.
inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 no such process, 4 cannot be profiled,\n"
    "5 privileges or kernel, 6 already profiled (or a snapshot of it is being taken), 7 agent,\n"
    "8 address in use or daemon unreachable, 9 a limit is reached.";

inline ExitCode exit_code_of(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNoProcess;
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kNotProfilable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return ExitCode::kPrivileges;
    case absl::StatusCode::kAlreadyExists:
      return ExitCode::kBusy;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kLimit;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kAgent;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
      return ExitCode::kUnavailable;
    default:
      return ExitCode::kInternal;
  }
}
inline ExitCode exit_code_of(const absl::Status& status) { return exit_code_of(status.code()); }

}  // namespace memprofd
