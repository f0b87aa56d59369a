// SPDX-License-Identifier: Apache-2.0
// memprofctl values history: the history of published values, live or recorded.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "daemon/ctl/command_line.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/render_past_values.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

struct ValueHistoryOptions {
  std::string pattern;
  std::uint32_t points = 40;
  bool with_lines = false;
};

absl::Status run_value_history(const Options& options, const ValueHistoryOptions& history) {
  ASSIGN_OR_RETURN(const SelectionSpec spec,
                   selection_of(options.query, static_cast<std::int64_t>(realtime_ns())));
  ASSIGN_OR_RETURN(QuestionTarget asked, ask(spec.target, options.endpoint));
  pb::GetValueHistoryRequest request;
  request.set_pid(asked.pid);
  *request.mutable_range() = spec.range;
  request.set_pattern(history.pattern);
  request.set_points(history.points);
  request.set_with_lines(history.with_lines);
  ASSIGN_OR_RETURN(const pb::GetValueHistoryResponse values,
                   asked.source->get_value_history(request));
  return options.json() ? print_json(values) : print(past_values_text(values, stdout_style()));
}

}  // namespace

void add_value_history(const CommandLine& line, CLI::App& app) {
  ValueHistoryOptions& history =
      line.set_up(app, "Show published values over time, live or recorded", &run_value_history);
  add_target(app, line.options().query);
  add_range(app, line.options().query);
  app.add_option("--match", history.pattern, "Show only names that match, such as '^requests'")
      ->type_name("REGEX");
  app.add_flag("--log", history.with_lines, "Also show log lines");
  app.add_option("--points", history.points, "Show at most N points")->capture_default_str();
  add_format(app, line.options().format, {kTable, kJson});
}

}  // namespace memprofd::ctl
