// SPDX-License-Identifier: Apache-2.0
// Checks that all request handlers share.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/service.h"
#include "daemon/model/requested_process.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

// kInvalidArgument if no process can have this pid.
inline absl::Status check_pid(int pid) {
  if (pid > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bad pid ", pid, ": it is a positive number"));
}

// The process that a request is about, for a user who may inspect all. Pid 0: about none.
template <typename Request>
RequestedProcess process_in(const Request& request) {
  RequestedProcess process;
  if constexpr (requires { request.options().pid(); }) return process_in(request.options());
  if constexpr (requires { request.snapshot().pid(); }) return process_in(request.snapshot());
  if constexpr (requires { request.values().pid(); }) return process_in(request.values());
  if constexpr (requires { request.pid(); }) process.pid = request.pid();
  if constexpr (requires { request.process_start_ticks(); }) {
    process.start_time_ticks = request.process_start_ticks();
  }
  return process;
}

// Checks that the process of a request is the intended one, if the request identifies it.
inline absl::Status check_process(ProfilerService& service, const RequestedProcess& process) {
  RETURN_IF_ERROR(check_pid(process.pid));
  if (process.start_time_ticks == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::uint64_t ticks, service.process_start_ticks(process.pid));
  return ticks == process.start_time_ticks ? absl::OkStatus() : another_program(process.pid);
}

}  // namespace memprofd
