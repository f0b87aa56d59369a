// SPDX-License-Identifier: Apache-2.0
// Commands that ask a running memprofd or a trace file.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/render_answers.h"
#include "daemon/ctl/render/render_report.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/report_format.h"
#include "daemon/ctl/selection_spec.h"
#include "daemon/ctl/site_join.h"
#include "daemon/ctl/top/top_help.h"
#include "daemon/ctl/top/top_plain.h"
#include "daemon/ctl/top/top_terminal.h"
#include "daemon/ctl/top/top_view.h"
#include "daemon/util/clock.h"
#include "daemon/util/one_of.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr int kTableLimit = 20;
constexpr int kReportLimit = 10;

// A question and its source.
struct Question {
  std::unique_ptr<Questions> source;
  pb::Selection selection;
};

absl::StatusOr<Question> question_of(const SelectionSpec& spec, const pb::Filter& filter,
                                     const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(QuestionTarget asked, ask(spec.target, endpoint));
  Question question{std::move(asked.source), {}};
  question.selection.set_pid(asked.pid);
  *question.selection.mutable_range() = spec.range;
  *question.selection.mutable_filter() = filter;
  return question;
}

std::int64_t now_ns() { return static_cast<std::int64_t>(realtime_ns()); }

absl::StatusOr<pb::Filter> filter_of(const Options& options) {
  return filter_of(options.query, options.frames());
}

absl::StatusOr<Question> question_of(const Options& options) {
  ASSIGN_OR_RETURN(const SelectionSpec spec, selection_of(options.query, now_ns()));
  ASSIGN_OR_RETURN(const pb::Filter filter, filter_of(options));
  return question_of(spec, filter, options.endpoint);
}

std::uint32_t limit_of(const Options& options, int standard) {
  return static_cast<std::uint32_t>(options.query.limit >= 0 ? options.query.limit : standard);
}

// The options of questions about sites, up to --out.
void add_question(CLI::App& app, Options& options, bool with_lifetimes) {
  add_target(app, options.query);
  add_range(app, options.query);
  add_filter(app, options.query, with_lifetimes);
  add_order(app, options.query);
  add_out(app, options.out);
}

absl::StatusOr<pb::ListSitesResponse> ask_sites(const Options& options, int default_limit,
                                                bool with_callstacks) {
  ASSIGN_OR_RETURN(Question question, question_of(options));
  pb::ListSitesRequest request;
  request.set_pid(question.selection.pid());
  *request.mutable_range() = question.selection.range();
  *request.mutable_filter() = question.selection.filter();
  request.set_order(options.query.order);
  request.set_group_by(options.query.group_by);
  request.set_limit(limit_of(options, default_limit));
  request.set_with_callstacks(with_callstacks || options.json());
  return all_sites(*question.source, request);
}

// ---------------------------------------------------------------- sites

struct SitesOptions {
  bool callstacks = false;
};

absl::Status run_sites(const Options& options, const SitesOptions& own) {
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response,
                   ask_sites(options, options.json() ? 0 : kTableLimit, own.callstacks));
  if (options.json()) return print_json(response, options.out);
  return write_result(sites_table(response, options.query.group_by, own.callstacks, stdout_style()),
                      options.out);
}

// ---------------------------------------------------------------- report

struct ReportOptions {
  bool leaks = false;
  pb::Recursion recursion = pb::RECURSION_UNSPECIFIED;
};

// The next question about a leak. Only a running program with an agent can answer it.
std::string hint_of(const Options& options, Question& question,
                    const pb::ListLeaksResponse& leaks) {
  const absl::StatusOr<pb::ListTargetsResponse> targets = question.source->list_targets();
  if (!targets.ok()) return "";
  for (const pb::Target& target : targets->targets()) {
    if (target.pid() != question.selection.pid()) continue;
    if (target.state() != pb::TARGET_STATE_SAMPLING || is_observed(target)) continue;
    return why_hint(leaks, target.pid(), options.endpoint);
  }
  return "";
}

absl::Status report_leaks(const Options& options) {
  ASSIGN_OR_RETURN(Question question, question_of(options));
  pb::ListLeaksRequest request;
  *request.mutable_selection() = question.selection;
  request.set_group_by(options.query.group_by);
  if (options.query.limit > 0) request.set_limit(limit_of(options, 0));
  request.set_roll_up(!options.json());
  ASSIGN_OR_RETURN(const pb::ListLeaksResponse response, question.source->list_leaks(request));
  if (options.json()) return print_json(response, options.out);
  return write_result(
      leaks_text(response, options.query.group_by) + hint_of(options, question, response),
      options.out);
}

absl::Status report_profile(const Options& options, const ReportOptions& own,
                            const ProfileFormatRow& format) {
  ASSIGN_OR_RETURN(Question question, question_of(options));
  pb::GetProfileRequest request;
  request.add_pids(question.selection.pid());
  *request.mutable_range() = question.selection.range();
  *request.mutable_filter() = question.selection.filter();
  request.set_format(format.proto);
  request.set_measure(options.query.order);
  request.set_recursion(own.recursion);
  ASSIGN_OR_RETURN(const pb::GetProfileResponse response, question.source->get_profile(request));
  if (format.is_text) return write_result(response.data(), options.out);
  return write_binary(response.data(), options.out, response.file_name());
}

absl::Status run_report(const Options& options, const ReportOptions& own) {
  if (own.leaks) return report_leaks(options);
  ASSIGN_OR_RETURN(const ProfileFormatRow* format, report_format(options.format));
  if (format != nullptr) return report_profile(options, own, *format);
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response, ask_sites(options, kReportLimit, true));
  if (options.json()) return print_json(response, options.out);
  return write_result(report_text(response, options.query.order, options.query.group_by),
                      options.out);
}

// ---------------------------------------------------------------- diff

struct DiffOptions {
  std::string base, other;  // TARGET[@RANGE]
  bool per_second = false;
};

// Combines the answers of two sources.
absl::StatusOr<pb::DiffSitesResponse> diff_sources(const Question& base, const Question& other,
                                                   const pb::DiffSitesRequest& request) {
  const auto sites = [&](const Question& question) {
    pb::ListSitesRequest one;
    one.set_pid(question.selection.pid());
    *one.mutable_range() = question.selection.range();
    *one.mutable_filter() = question.selection.filter();
    one.set_group_by(request.group_by());
    one.set_order(request.order());
    one.set_with_callstacks(request.with_callstacks());
    return all_sites(*question.source, one);
  };
  ASSIGN_OR_RETURN(const pb::ListSitesResponse before, sites(base));
  ASSIGN_OR_RETURN(const pb::ListSitesResponse after, sites(other));
  return join_sites(before, after, request);
}

absl::Status run_diff(const Options& options, const DiffOptions& own) {
  ASSIGN_OR_RETURN(const SelectionSpec base_spec, parse_selection(own.base, now_ns()));
  ASSIGN_OR_RETURN(const SelectionSpec other_spec, parse_selection(own.other, now_ns()));
  ASSIGN_OR_RETURN(const pb::Filter filter, filter_of(options));
  ASSIGN_OR_RETURN(Question base, question_of(base_spec, filter, options.endpoint));
  pb::DiffSitesRequest request;
  *request.mutable_base() = base.selection;
  request.set_group_by(options.query.group_by);
  request.set_order(options.query.order);
  request.set_limit(limit_of(options, options.json() ? 0 : kTableLimit));
  request.set_per_second(own.per_second);
  request.set_with_callstacks(options.json());
  pb::DiffSitesResponse response;
  if (base_spec.target.file == other_spec.target.file) {
    request.mutable_other()->set_pid(other_spec.target.pid != 0 ? other_spec.target.pid
                                                                : base.selection.pid());
    *request.mutable_other()->mutable_range() = other_spec.range;
    *request.mutable_other()->mutable_filter() = filter;
    ASSIGN_OR_RETURN(response, all_diffs(*base.source, request));
  } else {
    ASSIGN_OR_RETURN(const Question other, question_of(other_spec, filter, options.endpoint));
    ASSIGN_OR_RETURN(response, diff_sources(base, other, request));
  }
  if (options.json()) return print_json(response, options.out);
  return write_result(diff_text(response, request, stdout_style()), options.out);
}

// ---------------------------------------------------------------- callers, history

struct CallersOptions {
  std::string function;
};

absl::Status run_callers(const Options& options, const CallersOptions& own) {
  ASSIGN_OR_RETURN(Question question, question_of(options));
  pb::ListCallersRequest request;
  *request.mutable_selection() = question.selection;
  request.set_function(own.function);
  request.set_order(options.query.order);
  request.set_limit(limit_of(options, options.json() ? 0 : kTableLimit));
  ASSIGN_OR_RETURN(const pb::ListCallersResponse response, question.source->list_callers(request));
  if (options.json()) return print_json(response, options.out);
  return write_result(callers_text(response, request, stdout_style()), options.out);
}

struct HistoryOptions {
  std::uint32_t points = 40;
};

absl::Status run_history(const Options& options, const HistoryOptions& own) {
  ASSIGN_OR_RETURN(Question question, question_of(options));
  pb::GetHistoryRequest request;
  *request.mutable_selection() = question.selection;
  request.set_group_by(options.query.group_by);
  request.set_measure(options.query.order);
  request.set_limit(limit_of(options, kReportLimit));
  request.set_points(own.points);
  ASSIGN_OR_RETURN(const pb::GetHistoryResponse response, question.source->get_history(request));
  if (options.json()) return print_json(response, options.out);
  return write_result(history_text(response, request, stdout_style()), options.out);
}

// ---------------------------------------------------------------- top

// Returns 0 for the time since the attach.
absl::StatusOr<double> window_seconds(const std::string& text) {
  if (text == "all") return 0.0;
  ASSIGN_OR_RETURN(const double seconds, parse_duration(text));
  if (seconds >= 1) return seconds;
  return absl::InvalidArgumentError(
      absl::StrCat("bad window \"", text, "\": give 1s or more, or all"));
}

absl::Status run_top(const Options& options, const TopOptions& own) {
  ASSIGN_OR_RETURN(const SelectionSpec spec, selection_of(options.query, now_ns()));
  if (!spec.target.file.empty()) {
    return absl::InvalidArgumentError(
        "top needs a running target, not a file; use: memprofctl report FILE");
  }
  if (spec.range.ByteSizeLong() > 0) {
    return absl::InvalidArgumentError(
        "top starts at the present, and its keys go back in time; or use: memprofctl sites "
        "--range");
  }
  TopOptions top = own;
  top.view_state.pid = spec.target.pid;
  top.view_state.order = options.query.order;
  top.view_state.group_by = options.query.group_by;
  ASSIGN_OR_RETURN(top.view_state.filter, filter_of(options));
  ASSIGN_OR_RETURN(top.view_state.window_seconds, window_seconds(top.window));
  if (options.query.limit > 0) top.view_state.limit = limit_of(options, 0);
  if (!options.json() && !top.plain && has_screen()) return run_screen_top(options.endpoint, top);
  ASSIGN_OR_RETURN(const QuestionTarget asked, ask(spec.target, options.endpoint));
  top.view_state.pid = asked.pid;
  top.view_state.limit = limit_of(options, options.json() ? 0 : kTableLimit);
  return run_plain_top(*asked.source, top, options.json());
}

}  // namespace

void add_sites(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  SitesOptions& own =
      line.set_up(app, "List allocation sites (the first 20; all with -o json)", &run_sites);
  add_question(app, options, true);
  add_grouping(app, options.query);
  add_format(app, options.format, {kTable, kJson});
  app.add_flag("--callstacks", own.callstacks, "Show the callstack of each site");
}

void add_report(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  ReportOptions& own = line.set_up(
      app, "Print a report of a target or trace file, or export a profile", &run_report);
  add_question(app, options, true);
  add_grouping(app, options.query);
  add_format(app, options.format, report_formats());
  app.add_flag("--leaks", own.leaks, "Show sites whose live bytes grow");
  app.add_option_function<std::string>(
         "--recursion",
         [&own](const std::string& word) {
           own.recursion = word == "folded" ? pb::RECURSION_FOLDED : pb::RECURSION_FULL;
         },
         "Show recursion folded (default for html) or full (default for collapsed)")
      ->check(CLI::IsMember({"folded", "full"}))
      ->type_name("FORM");
}

void add_diff(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  DiffOptions& own = line.set_up(app, "Compare two targets, time ranges or trace files", &run_diff);
  app.add_option("base", own.base, "Baseline: PID, FILE, @FROM..TO or PID@FROM..TO")
      ->type_name("BASE")
      ->required();
  app.add_option("other", own.other, "What to compare with BASE, in the same form")
      ->type_name("OTHER")
      ->required();
  app.add_flag("--per-second", own.per_second,
               "Show differences per second, for ranges of unequal length");
  add_out(app, options.out);
  add_filter(app, options.query, true);
  add_order(app, options.query);
  add_grouping(app, options.query);
  add_format(app, options.format, {kTable, kJson});
}

void add_callers(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  CallersOptions& own = line.set_up(app, "Show callers and callees of a function", &run_callers);
  app.add_option("function", own.function, "Select the function by name")
      ->type_name("REGEX")
      ->required();
  add_question(app, options, true);
  add_format(app, options.format, {kTable, kJson});
}

void add_history(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  HistoryOptions& own = line.set_up(app, "Show counts over time", &run_history);
  add_question(app, options, false);
  add_grouping(app, options.query);
  add_format(app, options.format, {kTable, kJson});
  app.add_option("--points", own.points, "Show at most N points")->capture_default_str();
}

void add_top(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  TopOptions& own =
      line.set_up(app, "Watch allocation sites live, and go back in time (h: keys)", &run_top);
  add_running_target(app, options.query);
  add_filter(app, options.query, false);
  add_order(app, options.query);
  add_grouping(app, options.query);
  add_format(app, options.format, {kTable, kJson});
  app.add_option("-d,--interval", own.interval_seconds, "Seconds between updates of the screen")
      ->check(in_range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("-w,--window", own.window,
                 "Compute rates and lifetimes over the last DURATION, or since the attach (all)")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_flag("--plain", own.plain,
               "Print updates as plain text (default when stdout is not a terminal)");
  CLI::Option* iterations =
      app.add_option("--iterations", own.iterations, "Stop after N updates (0: never)")
          ->capture_default_str();
  app.add_flag_callback(
         "--once", [&own] { own.iterations = 1; }, "Print once and exit")
      ->excludes(iterations);
  app.footer("Keys on the screen:\n  " + absl::StrJoin(top_help(), "\n  "));
}

}  // namespace memprofd::ctl
