// SPDX-License-Identifier: Apache-2.0
// memprofctl values: shows the values of a program's modules.
#include <re2/re2.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/render/render_graph.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/snapshot/values_snapshot.h"
#include "daemon/ctl/value_source.h"
#include "daemon/ctl/watch.h"
#include "daemon/util/one_of.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr std::uint32_t kGraphNodes = 10'000;

struct ValuesOptions {
  std::string pattern;
  bool with_constants = false;
  bool with_contents = false;
  std::uint32_t limit = 1000;
  bool watch = false;
  std::string graph_of;  // name of the value to draw; empty: no graph
  bool by_domain = false;
  bool from_snapshot = false;
  std::string duration;    // between two reads; empty: one read
  std::string max_pause;   // of the snapshot
  bool no_daemon = false;  // this process reads them
};

absl::StatusOr<pb::Value> only_value(const pb::ListValuesResponse& values,
                                     const std::string& name) {
  if (values.reported_size() > 0 && values.reported(0).has_value()) {
    return values.reported(0).value();
  }
  if (values.values_size() > 0) return values.values(0).value();
  return absl::NotFoundError(
      absl::StrCat("no value is called '", name, "'; `memprofctl values` lists them"));
}

// Measures the values that were too large to read, in a snapshot; takes none if there are no such
// values.
absl::Status measure_too_large(HeapTaking& taking, int pid, const std::string& max_pause,
                               pb::ListValuesResponse& values) {
  if (!has_too_large(values)) return absl::OkStatus();
  RETURN_IF_ERROR(taking.begin(pid));
  ASSIGN_OR_RETURN(const pb::TakeHeapRequest request, taking.request(pid, max_pause));
  ASSIGN_OR_RETURN(const HeapImage image, taking.take_image(request));
  (void)complete_values(image, values);
  return absl::OkStatus();
}

absl::Status run_values(const Options& options, const ValuesOptions& own) {
  if (own.watch) {
    if (!own.graph_of.empty() || own.by_domain || own.from_snapshot || !own.duration.empty()) {
      return absl::InvalidArgumentError(
          "values --watch takes no --graph, --by-domain, --snapshot or --for");
    }
    return run_watch(options, {.names = {own.pattern.empty() ? "." : own.pattern},
                               .with_contents = own.with_contents,
                               .no_daemon = own.no_daemon});
  }
  Interrupt interrupt;
  Client client(options.endpoint);
  ValueSource source(client, own.no_daemon);
  HeapTaking taking(client, own.no_daemon);
  Waiting waiting;
  interrupt.on_signal([&] {
    source.interrupt();
    taking.interrupt();
    waiting.interrupt();
  });
  pb::ListValuesRequest request;
  ASSIGN_OR_RETURN(const int pid, source.open(options.pid));
  request.set_pid(pid);
  request.set_pattern(own.pattern);
  request.set_with_constants(own.with_constants);
  request.set_with_contents(own.with_contents);
  request.set_limit(own.limit);
  request.set_by_domain(own.by_domain);
  if (!own.graph_of.empty()) {
    request.set_pattern(absl::StrCat("^", RE2::QuoteMeta(own.graph_of), "$"));
    request.set_with_constants(true);
    request.set_graph_nodes(kGraphNodes);
  } else if (options.format == kDot) {
    return absl::InvalidArgumentError("bad format dot: it requires --graph NAME");
  }
  std::optional<pb::ListValuesResponse> before;
  if (!own.duration.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(own.duration));
    ASSIGN_OR_RETURN(before, source.list(request));
    const Progress progress("waiting for values to change");
    (void)waiting.wait_until(std::chrono::steady_clock::now() +
                             std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::duration<double>(seconds)));
  }
  ASSIGN_OR_RETURN(pb::ListValuesResponse values, source.list(request));
  if (!request.pattern().empty() && values.values().empty() && values.reported().empty() &&
      values.other_builds().empty() && own.graph_of.empty()) {
    return absl::NotFoundError(absl::StrCat("no value of pid ", pid, " is called '", own.pattern,
                                            "'; `memprofctl values` lists them"));
  }
  if (own.from_snapshot) RETURN_IF_ERROR(measure_too_large(taking, pid, own.max_pause, values));
  if (!own.graph_of.empty() && !options.json()) {
    ASSIGN_OR_RETURN(const pb::Value value, only_value(values, own.graph_of));
    return print(options.format == kDot ? graph_dot(value) : graph_text(value));
  }
  return options.json() ? print_json(values)
                        : print(render_values(values, stdout_style(), before ? &*before : nullptr));
}

}  // namespace

void add_values(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  ValuesOptions& own =
      line.set_up(app, "Show published values and the values of modules", &run_values);
  app.add_option("pattern", own.pattern, "Show only names that match, such as 'Cache'")
      ->type_name("REGEX");
  add_pid(app, options.pid);
  app.add_flag("--constants,--discover", own.with_constants,
               "Also show constants: functions, constant data, integers");
  app.add_flag("--contents", own.with_contents,
               "Show the contents of strings, which may be secret");
  app.add_option("-n,--limit", own.limit, "Show at most N values")
      ->check(in_range(1, 100'000))
      ->capture_default_str();
  app.add_flag("--watch", own.watch, "Print values as they change, like watch")->group("");
  app.add_option("--graph", own.graph_of, "Show one value as a graph of all blocks that it reaches")
      ->type_name("NAME");
  app.add_flag("--by-domain", own.by_domain, "Break counters and timers down by domain");
  app.add_flag(
      "--snapshot", own.from_snapshot,
      "Take a heap snapshot to measure values too large to read live; pauses the process briefly");
  add_no_daemon(app, own.no_daemon);
  app.add_option("--for", own.duration,
                 "Read twice, DURATION apart, and list values that grew first, with their growth")
      ->type_name("DURATION");
  add_max_pause(app, own.max_pause);
  add_format(app, options.format, {kTable, kJson, kDot});
  add_watch(line, *app.add_subcommand("watch"));
  add_value_history(line, *app.add_subcommand("history"));
  add_adjust(line, *app.add_subcommand("set"));
  add_ask(line, *app.add_subcommand("call"));
  add_resume(line, *app.add_subcommand("resume"));
}

}  // namespace memprofd::ctl
