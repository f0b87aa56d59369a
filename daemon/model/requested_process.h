// SPDX-License-Identifier: Apache-2.0
// The process of a request and the user who asks. Both accompany the request until the process is
// opened. They are compared with it there, because the pid may have been reused, or the process may
// have gained rights (exec of a setuid program).
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace memprofd {

// User and group ids, the two attributes by which the kernel compares a user with a process.
struct ProcessUser {
  uid_t uid = 0;
  gid_t gid = 0;

  friend auto operator<=>(const ProcessUser&, const ProcessUser&) = default;
};

struct RequestedProcess {
  RequestedProcess() = default;
  // Any process with the pid, for a user who may inspect all:
  // NOLINTNEXTLINE(google-explicit-constructor)
  RequestedProcess(int pid, std::uint64_t start_time_ticks = 0,
                   std::optional<ProcessUser> user = {})
      : pid(pid), start_time_ticks(start_time_ticks), user(user) {}

  int pid = 0;
  std::uint64_t start_time_ticks = 0;  // 0: any process with the pid
  // Required owner of the process (discover/process_owner.h); nullopt: any owner.
  std::optional<ProcessUser> user;

  friend auto operator<=>(const RequestedProcess&, const RequestedProcess&) = default;
};

inline absl::Status another_program(int pid) {
  return absl::FailedPreconditionError(absl::StrCat(
      "pid ", pid,
      " is now another program than the target; `memprofctl targets` lists all targets"));
}

inline absl::Status not_of_user(int pid, const ProcessUser& user) {
  return absl::PermissionDeniedError(
      absl::StrCat("pid ", pid, " is not a program of user ", user.uid, " and group ", user.gid,
                   ", or the kernel protects it (it has changed its user, or has more rights): ask "
                   "as root, or start memprofd with --grpc.group-controls"));
}

// Checks that a process is the requested one and that the caller owns it. An owner of nullopt means
// that only root may inspect the process.
inline absl::Status check_is_meant(const RequestedProcess& asked, std::uint64_t start_time_ticks,
                                   const std::optional<ProcessUser>& owner) {
  if (asked.start_time_ticks != 0 && asked.start_time_ticks != start_time_ticks) {
    return another_program(asked.pid);
  }
  if (asked.user && asked.user != owner) return not_of_user(asked.pid, *asked.user);
  return absl::OkStatus();
}

}  // namespace memprofd
