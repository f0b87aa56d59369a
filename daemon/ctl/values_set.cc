// SPDX-License-Identifier: Apache-2.0
// memprofctl values set: turns published values off or on, or changes how often functions are
// called.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/util/one_of.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

absl::Status add_labels(const std::vector<std::string>& labels, pb::AdjustRequest& request) {
  for (const std::string& label : labels) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("bad label '", label, "': give KEY=VALUE, such as route=/a"));
    }
    pb::ReportedLabel& to = *request.add_labels();
    to.set_key(label.substr(0, equals));
    to.set_value(label.substr(equals + 1));
  }
  return absl::OkStatus();
}

// "off, every 100 ms"
std::string request_text(const pb::AdjustRequest& request) {
  std::vector<std::string> parts;
  if (request.has_enabled()) parts.push_back(request.enabled() ? "on" : "off");
  if (request.has_period_ms()) {
    parts.push_back(request.period_ms() == 0 ? "with the program's period"
                                             : absl::StrCat("every ", request.period_ms(), " ms"));
  }
  return absl::StrJoin(parts, ", ");
}

struct AdjustOptions {
  std::string pattern;
  std::vector<std::string> labels;  // "key=value"
  bool on = false, off = false;
  std::optional<std::uint32_t> period_ms;
};

absl::Status run_adjust(const Options& options, const AdjustOptions& adjust) {
  pb::AdjustRequest request;
  request.set_pattern(adjust.pattern);
  RETURN_IF_ERROR(add_labels(adjust.labels, request));
  if (adjust.on || adjust.off) request.set_enabled(adjust.on);
  if (adjust.period_ms) request.set_period_ms(*adjust.period_ms);
  const std::string asked = request_text(request);
  if (asked.empty()) {
    return absl::InvalidArgumentError("nothing to change: give --off, --on or --period");
  }
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  ASSIGN_OR_RETURN(const pb::AdjustResponse done, client.adjust(request));
  return print(absl::StrCat("pid ", pid, ": changed ", done.count(),
                            done.count() == 1 ? " value: " : " values: ", asked, "\n"));
}

}  // namespace

void add_adjust(const CommandLine& line, CLI::App& app) {
  AdjustOptions& adjust =
      line.set_up(app, "Turn published values off or on, or change their period", &run_adjust);
  app.add_option("pattern", adjust.pattern,
                 "Change only names that match, such as '^requests' (default: all)")
      ->type_name("REGEX");
  add_pid(app, line.options().pid);
  app.add_option("--label", adjust.labels, "Change only values with this label, such as route=/a")
      ->type_name("KEY=VALUE");
  CLI::Option* off = app.add_flag("--off", adjust.off, "Stop updating the values");
  app.add_flag("--on", adjust.on, "Resume updating the values")->excludes(off);
  app.add_option("--period", adjust.period_ms,
                 "Call value functions every N ms; 0: use the period that the program registered")
      ->check(in_range(0, 86'400'000));
}

}  // namespace memprofd::ctl
