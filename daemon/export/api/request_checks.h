// SPDX-License-Identifier: Apache-2.0
// Checks that all request handlers share.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/service.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

// kInvalidArgument for what no process has.
inline absl::Status check_pid(int pid) {
  if (pid > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bad pid ", pid, ": it is a positive number"));
}

inline absl::Status another_program(int pid) {
  return absl::FailedPreconditionError(
      absl::StrCat("pid ", pid,
                   " is another program now than the one that is meant; "
                   "memprofctl targets lists those that are profiled"));
}

// Whether the process that a request acts on is the one that is meant, if it says which.
template <typename Request>
absl::Status check_process(ProfilerService& service, const Request& request) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  if (request.process_start_ticks() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::uint64_t ticks, service.process_start_ticks(request.pid()));
  return ticks == request.process_start_ticks() ? absl::OkStatus() : another_program(request.pid());
}

}  // namespace memprofd
