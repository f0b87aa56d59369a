// SPDX-License-Identifier: Apache-2.0
// A running process whose memory this one may read and write without privileges: it belongs to the
// same user, and the kernel permits ptrace.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/discover/target.h"

namespace memprofd {

// For messages of refusals.
struct OwnAccess {
  const char* what;       // "profile", as in "not allowed to profile pid 42"
  const char* otherwise;  // how else to do it: "start the program with memprofctl run -- PROGRAM"
};

// A process that is to be profiled.
inline constexpr char kStartByRun[] = "start the program with memprofctl run -- PROGRAM";
inline constexpr OwnAccess kToProfile{.what = "profile", .otherwise = kStartByRun};

// Inspects it, and does nothing to it. Errors have one line with cause and remedy: kNotFound,
// kPermissionDenied, and those of discover_target().
absl::StatusOr<Target> discover_own_process(int pid, const OwnAccess& access);

}  // namespace memprofd
