// SPDX-License-Identifier: Apache-2.0
// memprofctl trace-calls: how often functions of a running program are called.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "daemon/ctl/command_line.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/render/render_calls.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/one_of.h"
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

struct TraceCallsOptions {
  std::string pattern;
  std::string duration;
  std::uint64_t max_hits = 0;  // a second; 0: the daemon's default
  double interval = 1;         // seconds
  bool with_time = false;
};

absl::StatusOr<pb::TraceCallsRequest> request_of(const Options& options,
                                                 const TraceCallsOptions& calls, Client& client) {
  pb::TraceCallsRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  request.set_pattern(calls.pattern);
  request.set_max_hits_per_second(calls.max_hits);
  request.set_with_time(calls.with_time);
  request.set_interval_seconds(calls.interval);
  if (!calls.duration.empty()) {
    ASSIGN_OR_RETURN(const double seconds, duration_of(calls.duration));
    request.set_duration_seconds(seconds);
  }
  return request;
}

absl::Status show(const pb::TraceCallsResponse& calls, const Options& options) {
  if (!options.json()) return print(render_calls(calls, stdout_style()));
  ASSIGN_OR_RETURN(const std::string text, message_json(calls, false));
  return print(text + "\n");
}

absl::Status run_trace_calls(const Options& options, const TraceCallsOptions& calls) {
  Interrupt interrupt;
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const pb::TraceCallsRequest request, request_of(options, calls, client));
  interrupt.on_signal([&client] { client.interrupt(); });
  return client.trace_calls(
      request, [&](const pb::TraceCallsResponse& response) { return show(response, options); });
}

}  // namespace

void add_trace_calls(const CommandLine& line, CLI::App& app) {
  TraceCallsOptions& calls =
      line.set_up(app, "Count and time calls of functions in a running process", &run_trace_calls);
  app.add_option("pattern", calls.pattern, "Count functions that match, such as 'Order_parser\\.*'")
      ->type_name("REGEX")
      ->required();
  add_pid(app, line.options().pid);
  app.add_flag("--time", calls.with_time,
               "Also measure how long calls take, at ten times the cost");
  app.add_option("--duration", calls.duration, "Stop after this time")->type_name("DURATION");
  app.add_option("--max-hits", calls.max_hits,
                 "Stop when the probes are hit more than N times in one second (default: 20000)")
      ->check(CLI::PositiveNumber);
  app.add_option("-d,--interval", calls.interval, "Seconds between two rows of counts")
      ->check(in_range(0.1, 3600.0))
      ->capture_default_str();
  add_format(app, line.options().format, {kTable, kJson});
}

}  // namespace memprofd::ctl
