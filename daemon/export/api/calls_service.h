// SPDX-License-Identifier: Apache-2.0
// Calls of a program's functions as the API's messages.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/service.h"
#include "memprof/v1/calls.pb.h"

namespace memprofd {

// Text of a request in memprofd's log: "trace calls of '^Server'".
std::string name_of(const ::memprof::v1::TraceCallsRequest& request);

// Sends the counts of calls until the client leaves, or the trace ends. kInvalidArgument for an
// invalid request, otherwise the errors of ProfilerService.
absl::Status trace_calls(ProfilerService& service, const ::memprof::v1::TraceCallsRequest& request,
                         const StreamCall<::memprof::v1::TraceCallsResponse>& call);

::memprof::v1::TraceCallsResponse to_proto(const CallsReport& report, int pid);

}  // namespace memprofd
