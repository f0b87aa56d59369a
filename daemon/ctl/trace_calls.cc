// SPDX-License-Identifier: Apache-2.0
// memprofctl trace-calls: how often functions of a running program are called.
#include <string>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_calls.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

absl::StatusOr<double> duration_of(const std::string& text) {
  ASSIGN_OR_RETURN(const double seconds, parse_duration(text));
  if (seconds > 0) return seconds;
  return absl::InvalidArgumentError(
      "--duration 0 would count nothing: give a time above 0, or leave it out");
}

absl::StatusOr<pb::TraceCallsRequest> request_of(const Options& options, Client& client) {
  pb::TraceCallsRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  request.set_pattern(options.calls_pattern);
  request.set_max_hits_per_second(options.max_hits);
  request.set_with_time(options.calls_with_time);
  request.set_interval_seconds(options.calls_interval);
  if (!options.duration.empty()) {
    ASSIGN_OR_RETURN(const double seconds, duration_of(options.duration));
    request.set_duration_seconds(seconds);
  }
  return request;
}

absl::Status show(const pb::TraceCallsResponse& calls, const Options& options) {
  if (!options.json()) return print(render_calls(calls, stdout_style()));
  ASSIGN_OR_RETURN(const std::string text, message_json(calls, false));
  return print(text + "\n");
}

}  // namespace

absl::Status run_trace_calls(const Options& options) {
  Interrupt interrupt;
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const pb::TraceCallsRequest request, request_of(options, client));
  interrupt.on_signal([&client] { client.interrupt(); });
  return client.trace_calls(
      request, [&](const pb::TraceCallsResponse& response) { return show(response, options); });
}

}  // namespace memprofd::ctl
