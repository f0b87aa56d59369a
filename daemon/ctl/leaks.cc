// SPDX-License-Identifier: Apache-2.0
// memprofctl leaks: reports whether a program leaks, which sites, since when, and which variable
// keeps the memory.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/render_answers.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/snapshot/why_answer.h"
#include "daemon/snapshot/answers/container_growth.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/clock.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kContainers = 5;
constexpr std::uint32_t kValues = 1000;
constexpr auto kBetweenAnswers = std::chrono::seconds(2);

struct LeaksOptions {
  std::string duration;          // of the search; empty: an answer at once
  std::string max_pause;         // of each snapshot
  std::vector<std::string> cmt;  // more places with names of variables
  bool verdict_exit = false;     // the exit code shows the result
};

// The program's variables at one moment.
struct Variables {
  Clock::time_point time;
  std::vector<Container> containers;
};

absl::StatusOr<Variables> read_variables(const Options& options, const LeaksOptions& own, int pid) {
  Client client(options.endpoint);
  const HeapTaking taking(client, false);
  ASSIGN_OR_RETURN(const pb::TakeHeapRequest request, taking.request(pid, own.max_pause));
  const auto time = Clock::now();
  ASSIGN_OR_RETURN(HeapImage image, taking.take_image(request, own.cmt, site_frame(options)));
  return Variables{time, find_containers(image)};
}

// Sizes of the program's values, which are read without a pause. Empty if they cannot be read: they
// only complete an answer.
pb::ListValuesResponse read_values(const Options& options, int pid) {
  pb::ListValuesRequest request;
  request.set_pid(pid);
  request.set_limit(kValues);
  return Client(options.endpoint).list_values(request).value_or(pb::ListValuesResponse());
}

bool does_leak(const pb::ListLeaksResponse& answer) {
  return answer.verdict() == pb::LEAK_VERDICT_SITES ||
         answer.verdict() == pb::LEAK_VERDICT_GROUPS || answer.verdict() == pb::LEAK_VERDICT_MEMORY;
}

void add_containers(const Variables& before, const Variables& after,
                    pb::ListLeaksResponse& answer) {
  const std::vector<ContainerGrowth> growths =
      container_growth(before.containers, after.containers);
  for (std::size_t i = 0; i < std::min(growths.size(), kContainers); ++i) {
    const ContainerGrowth& growth = growths[i];
    pb::ContainerChange& change = *answer.add_containers();
    change.set_root(growth.container.root);
    change.set_kind(growth.container.kind);
    change.set_bytes(growth.container.words * kWordBytes);
    change.set_change_bytes(growth.words * kWordBytes);
    change.set_entries(growth.container.entries);
    change.set_change_entries(growth.entries);
    change.set_site(growth.container.site);
  }
  answer.set_between_snapshots_seconds(
      std::chrono::duration<double>(after.time - before.time).count());
}

const char* verdict_text(const pb::ListLeaksResponse& answer) {
  switch (answer.verdict()) {
    case pb::LEAK_VERDICT_SITES:
    case pb::LEAK_VERDICT_GROUPS:
      return "leaks";
    case pb::LEAK_VERDICT_MEMORY:
      return "its memory grows";
    case pb::LEAK_VERDICT_NONE:
      return "nothing grows by more than chance explains";
    default:
      break;
  }
  return "too little is known yet";
}

// One line on a terminal's stderr, overwritten each time.
void show_progress(const pb::ListLeaksResponse& answer, double seconds, double all) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%s of %s: %s", format_duration(seconds).c_str(),
               format_duration(all).c_str(), verdict_text(answer));
}

class Search {
 public:
  Search(const Options& options, const LeaksOptions& own, Questions& source,
         pb::ListLeaksRequest request)
      : options_(options), own_(own), source_(source), request_(std::move(request)) {}

  // Asks repeatedly for this time.
  absl::StatusOr<pb::ListLeaksResponse> run(double seconds, Waiting& waiting) {
    ASSIGN_OR_RETURN(pb::ListLeaksResponse answer, source_.list_leaks(request_));
    if (seconds <= 0) return answer;
    const absl::StatusOr<Variables> before = read_variables(options_, own_, pid());
    if (!before.ok()) report_refusal(before.status());
    const pb::ListValuesResponse values = read_values(options_, pid());
    const auto start = Clock::now();
    const auto end =
        start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (auto now = start; now < end; now = Clock::now()) {
      show_progress(answer, std::chrono::duration<double>(now - start).count(), seconds);
      if (!waiting.wait_until(std::min(end, now + kBetweenAnswers))) break;
      ASSIGN_OR_RETURN(answer, source_.list_leaks(request_));
    }
    if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    if (!does_leak(answer)) return answer;
    name_variables(before, answer);
    if (why_no_variables_.empty()) return answer;
    grown_values_ = grown_values_text(values, read_values(options_, pid()),
                                      std::chrono::duration<double>(Clock::now() - start).count());
    return answer;
  }
  // The values with more entries than before, if a snapshot was refused; else empty.
  const std::string& grown_values() const { return grown_values_; }
  // The reason why a snapshot was refused, or empty.
  const std::string& why_no_variables() const { return why_no_variables_; }
  int pid() const { return request_.selection().pid(); }

 private:
  // At once, so that the user need not wait for an answer without names of variables.
  void report_refusal(const absl::Status& why) const {
    const std::string command =
        command_with_pause(why, absl::StrCat("leaks --pid ", pid(), " --for ", own_.duration));
    std::fprintf(
        stderr, "memprofctl: the variable that grows will not be named: %s%s\n",
        std::string(why.message()).c_str(),
        command.empty() ? "" : absl::StrCat("; try ", options_.endpoint.command(command)).c_str());
  }
  void name_variables(const absl::StatusOr<Variables>& before, pb::ListLeaksResponse& answer) {
    absl::Status status = before.status();
    if (status.ok()) {
      const absl::StatusOr<Variables> after = read_variables(options_, own_, pid());
      status = after.status();
      if (status.ok()) add_containers(*before, *after, answer);
    }
    if (!status.ok()) why_no_variables_ = std::string(status.message());
  }

  const Options& options_;
  const LeaksOptions& own_;
  Questions& source_;
  const pb::ListLeaksRequest request_;
  std::string why_no_variables_;
  std::string grown_values_;
};

bool grows(const pb::ListLeaksResponse& answer, pb::MemoryArea wanted) {
  for (const pb::MemoryGrowth& area : answer.memory()) {
    if (area.area() == wanted && area.grows()) return true;
  }
  return false;
}

// Empty if it is not a target any more.
absl::StatusOr<pb::Target> find_target(Questions& source, int pid) {
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse response, source.list_targets());
  for (const pb::Target& target : response.targets()) {
    if (target.pid() == pid) return target;
  }
  return pb::Target();
}

// Whether more is known about the target after a while.
bool may_be_sampled(const pb::Target& target) {
  return target.state() != pb::TARGET_STATE_FAILED && target.state() != pb::TARGET_STATE_DETACHED &&
         target.state() != pb::TARGET_STATE_EXITED;
}

// The reason why the rate is not higher; empty if a site has been named or the rate is the
// requested one.
std::string rate_hint(const pb::ListLeaksResponse& answer, const pb::Target& target) {
  const bool is_named = answer.verdict() == pb::LEAK_VERDICT_SITES;
  if (is_named || !absl::StrContains(target.message(), "kept at ")) return "";
  return absl::StrCat("\nMore samples would show more. The rate: ", target.message(), "\n");
}

bool lacks_names(const pb::ListLeaksResponse& answer) {
  return std::ranges::any_of(answer.containers(), [](const pb::ContainerChange& container) {
    return absl::StrContains(container.root(), ", field ");
  });
}

// The next step, of a target that is sampled.
std::string advice(const pb::ListLeaksResponse& answer, const Search& search, double seconds,
                   bool is_sampled, const Endpoint& endpoint) {
  const std::string of_pid = absl::StrCat("--pid ", search.pid());
  std::string out;
  if (!search.why_no_variables().empty()) {
    absl::StrAppend(&out, "\nThe variable that keeps it is unknown: ", search.why_no_variables(),
                    "\n", search.grown_values());
  }
  if (lacks_names(answer)) {
    out +=
        "\nA field has no name: pass the folder of the program's .cmt or .cmi files with --cmt.\n";
  }
  if (seconds <= 0 && does_leak(answer)) {
    absl::StrAppend(&out, "\nTo name the variable that grows, by two snapshots: ",
                    endpoint.command(absl::StrCat("leaks ", of_pid, " --for 30s")), "\n");
  }
  if (answer.verdict() == pb::LEAK_VERDICT_UNKNOWN && is_sampled) {
    absl::StrAppend(&out, "\nToo little is known yet. To wait for more: ",
                    endpoint.command(absl::StrCat("leaks ", of_pid, " --for 2m")), "\n");
  }
  if (grows(answer, pb::MEMORY_AREA_NATIVE) || grows(answer, pb::MEMORY_AREA_MAPPED)) {
    absl::StrAppend(&out, "\nTo see memory outside of the OCaml heap: ",
                    endpoint.command(absl::StrCat("rss ", search.pid())),
                    "\nTo see the callers of malloc, if attached with --c-heap: ",
                    endpoint.command(absl::StrCat("report --leaks --heap c ", of_pid)), "\n");
  }
  return out;
}

absl::Status run_leaks(const Options& options, const LeaksOptions& own) {
  double seconds = 0;
  if (!own.duration.empty()) {
    ASSIGN_OR_RETURN(seconds, parse_duration(own.duration));
  }
  ASSIGN_OR_RETURN(const SelectionSpec spec,
                   selection_of(options.query, static_cast<std::int64_t>(realtime_ns())));
  if (!spec.target.file.empty() && seconds > 0) {
    return absl::InvalidArgumentError("--for needs a running program, not a file");
  }
  pb::ListLeaksRequest request;
  ASSIGN_OR_RETURN(*request.mutable_selection()->mutable_filter(),
                   filter_of(options.query, options.frames()));
  *request.mutable_selection()->mutable_range() = spec.range;
  request.set_group_by(options.query.group_by);
  request.set_roll_up(true);
  Interrupt interrupt;
  Waiting waiting;
  ASSIGN_OR_RETURN(const QuestionTarget asked, ask(spec.target, options.endpoint));
  interrupt.on_signal([&] {
    waiting.interrupt();
    if (seconds <= 0) asked.source->interrupt();
  });
  request.mutable_selection()->set_pid(asked.pid);
  if (seconds > 0) {
    ASSIGN_OR_RETURN(const pb::Target target, find_target(*asked.source, asked.pid));
    if (!may_be_sampled(target)) seconds = 0;
  }
  Search search(options, own, *asked.source, std::move(request));
  ASSIGN_OR_RETURN(const pb::ListLeaksResponse answer, search.run(seconds, waiting));
  if (own.verdict_exit) {
    constexpr int kLeaks = 1;
    *options.program_exit = does_leak(answer) ? kLeaks
                            : answer.verdict() == pb::LEAK_VERDICT_UNKNOWN
                                ? static_cast<int>(ExitCode::kLimit)
                                : 0;
  }
  if (options.json()) return print_json(answer, options.out);
  std::string text = leaks_text(answer, options.query.group_by) + containers_text(answer);
  if (spec.target.file.empty()) {
    ASSIGN_OR_RETURN(const pb::Target target, find_target(*asked.source, asked.pid));
    const std::string state = not_sampled_text(target, options.endpoint);
    if (!state.empty()) text = absl::StrCat(state, "\n", text);
    const std::string why = why_hint(answer, search.pid(), options.endpoint);
    absl::StrAppend(&text, rate_hint(answer, target),
                    advice(answer, search, seconds, state.empty(), options.endpoint),
                    why.empty() ? "" : "\n", why);
  }
  return write_result(text, options.out);
}

}  // namespace

void add_leaks(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  LeaksOptions& own =
      line.set_up(app, "Report whether a process leaks memory, where, and since when", &run_leaks);
  add_target(app, options.query);
  add_range(app, options.query);
  add_filter(app, options.query, false);
  add_grouping(app, options.query);
  app.add_option("--for", own.duration,
                 "Wait DURATION, then answer; two heap snapshots show which variables grew")
      ->type_name("DURATION");
  add_max_pause(app, own.max_pause);
  app.add_option("--cmt", own.cmt,
                 "Also look for names of variables in this .cmt or .cmi file, or below this "
                 "folder; repeatable")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_flag("--exit-code", own.verdict_exit,
               "Exit with 1 if something leaks, with 9 if too little is known yet");
  add_out(app, options.out);
  add_format(app, options.format, {kTable, kJson});
  app.footer(
      "Exits with 0 whether something leaks or not, unless --exit-code is given.\n"
      "Ctrl-C ends --for early and reports the results so far.");
}

}  // namespace memprofd::ctl
