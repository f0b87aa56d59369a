// SPDX-License-Identifier: Apache-2.0
// Calls of a program's functions as the API's messages.
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/calls/call_trace.h"
#include "daemon/export/api/service.h"
#include "memprof/v1/calls.pb.h"

namespace memprofd {

// The answer to one request, message by message. Not thread-safe.
class CallsStream {
 public:
  // kInvalidArgument for an invalid request, otherwise the errors of ProfilerService.
  static absl::StatusOr<CallsStream> open(ProfilerService& service,
                                          const ::memprof::v1::TraceCallsRequest& request,
                                          const AskedProcess& process);

  ::memprof::v1::TraceCallsResponse next();
  std::chrono::nanoseconds interval() const { return interval_; }

 private:
  CallsStream() = default;

  std::shared_ptr<CallTrace> trace_;
  int pid_ = 0;
  std::chrono::nanoseconds interval_{};
  double duration_seconds_ = 0;
};

::memprof::v1::TraceCallsResponse to_proto(const CallsReport& report, int pid);

}  // namespace memprofd
