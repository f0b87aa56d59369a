// SPDX-License-Identifier: Apache-2.0
// Exit codes of memprofd and memprofctl. Scripts rely on the numbers.
#pragma once

#include "absl/status/status.h"

namespace memprofd {

enum class ExitCode : int {
  // docs/ctl.md repeats these texts.
  kOk = 0,             // ok
  kInternal = 1,       // internal error
  kUsage = 2,          // bad option or value, or an unusable directory
  kNoProcess = 3,      // no such process or target
  kNotProfilable = 4,  // cannot be profiled, or not in this way, or another program now
  kPrivileges = 5,     // privileges or kernel feature missing
  kBusy = 6,           // already profiled
  kAgent = 7,          // agent file missing, unusable or of another build
  kUnavailable = 8,    // address or state directory in use; memprofd not reachable, or ending
  kLimit = 9,          // a limit is reached, a disk full or a snapshot being taken: try again
  kOlderDaemon = 10,   // memprofd is older than memprofctl and does not support the request
};

// Payload type of a status in memprofctl: memprofd does not support the request.
inline constexpr char kOlderDaemonPayload[] = "memprofd/older-daemon";

// The last lines of --help.
inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 no such process, 4 cannot be profiled,\n"
    "5 missing privilege or kernel feature, 6 already profiled, 7 agent library unusable,\n"
    "8 memprofd unreachable, or address or state directory in use, 9 limit reached or busy,\n"
    "10 memprofd older than memprofctl.";

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
inline ExitCode exit_code_of(const absl::Status& status) {
  if (status.GetPayload(kOlderDaemonPayload)) return ExitCode::kOlderDaemon;
  return exit_code_of(status.code());
}

}  // namespace memprofd
