// SPDX-License-Identifier: Apache-2.0
// memprofctl values watch: prints chosen values of a program as they change, until it pauses;
// memprofctl values resume.
#include "daemon/ctl/watch.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/render/render_watch.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/value_source.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/clock.h"
#include "daemon/util/one_of.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// A pattern that matches any of the names.
std::string any_of(const std::vector<std::string>& names) {
  return absl::StrCat("(?:", absl::StrJoin(names, ")|(?:"), ")");
}

absl::Status print_json_line(const pb::ListValuesResponse& values) {
  ASSIGN_OR_RETURN(const std::string text, message_json(values, false));
  return print(text + "\n");
}

// Detects pauses of the program that were not shown yet.
class Pauses {
 public:
  // The name of a new pause. The first reading returns nothing, unless the program waits in one.
  std::optional<std::string> update(const pb::ListValuesResponse& values) {
    std::optional<std::string> name;
    std::uint64_t end = seen_.value_or(0);
    for (const pb::ReportedLine& line : values.lines()) {
      if (!line.is_pause() || line.number() < end) continue;
      if (seen_ || values.waiting() > 0) name = line.text();
      end = line.number() + 1;
    }
    seen_ = end;
    return name;
  }

 private:
  std::optional<std::uint64_t> seen_;
};

// Returns true if a user at a terminal has chosen to continue. Without memprofd, which would resume
// the program, it does not ask.
absl::StatusOr<bool> stop_at(const std::string& pause, const Options& options, Client& client,
                             int pid, bool no_daemon) {
  const bool is_asked = ::isatty(STDIN_FILENO) != 0 && !options.json() && !no_daemon;
  if (!options.json()) {
    RETURN_IF_ERROR(
        print(absl::StrCat("pause ", printable(pause), is_asked ? "; Enter continues" : "", "\n")));
  }
  if (!is_asked) return false;
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  RETURN_IF_ERROR(client.resume(pid).status());
  return true;
}

// Asks memprofd to record the history of the watched module values, or to stop doing so.
absl::Status keep(const WatchOptions& watch, Client& client, int pid) {
  pb::KeepValuesRequest request;
  request.set_pid(pid);
  request.set_pattern(any_of(watch.names));
  request.set_forget(watch.forget);
  ASSIGN_OR_RETURN(const pb::KeepValuesResponse kept, client.keep_values(request));
  const std::string names = kept.names().empty() ? "nothing" : absl::StrJoin(kept.names(), ", ");
  return print(absl::StrCat("recording module values of pid ", pid, ": ", printable(names), "\n"));
}

class Watch {
 public:
  Watch(const Options& options, const WatchOptions& watch, Client& client, ValueSource& source,
        int pid)
      : options_(options), watch_(watch), client_(client), source_(source) {
    request_.set_pid(pid);
    request_.set_pattern(any_of(watch.names));
    request_.set_with_contents(watch.with_contents);
  }

  // JSON has all values at each reading, text only those that have changed.
  absl::Status run() {
    return options_.json() || watch_.no_daemon ? ask_again_and_again() : follow();
  }

 private:
  enum class Next { kNext, kPause, kEnd };

  absl::Status follow() {
    pb::WatchValuesRequest request;
    *request.mutable_values() = request_;
    request.set_period_seconds(watch_.period);
    while (true) {
      Next next = Next::kNext;
      const absl::Status status =
          client_.watch_values(request, [&](const pb::WatchValuesResponse& answer) -> absl::Status {
            ASSIGN_OR_RETURN(next, show(answer.changed(), answer.unix_ns()));
            return next == Next::kNext ? absl::OkStatus() : absl::CancelledError("enough");
          });
      if (next == Next::kNext) return status;
      ASSIGN_OR_RETURN(const bool continues, continues_after(next));
      if (!continues) return absl::OkStatus();
    }
  }

  absl::Status ask_again_and_again() {
    using Clock = std::chrono::steady_clock;
    const auto period =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(watch_.period));
    for (auto due = Clock::now();; due = std::max(due + period, Clock::now())) {
      std::this_thread::sleep_until(due);
      ASSIGN_OR_RETURN(const pb::ListValuesResponse values, source_.list(request_));
      ASSIGN_OR_RETURN(const Next next, show(values, static_cast<std::int64_t>(realtime_ns())));
      ASSIGN_OR_RETURN(const bool continues, continues_after(next));
      if (!continues) return absl::OkStatus();
    }
  }

  absl::StatusOr<bool> continues_after(Next next) {
    if (next != Next::kPause) return next == Next::kNext;
    return stop_at(pause_, options_, client_, request_.pid(), watch_.no_daemon);
  }

  // values: at the first reading, all values.
  absl::StatusOr<Next> show(const pb::ListValuesResponse& values, std::int64_t unix_ns) {
    if (answers_ == 0 && values.reported().empty() && values.values().empty()) {
      return absl::NotFoundError(absl::StrCat("no value of pid ", request_.pid(), " is called '",
                                              absl::StrJoin(watch_.names, "' or '"),
                                              "'; `memprofctl values` lists them"));
    }
    RETURN_IF_ERROR(options_.json() ? print_json_line(values)
                                    : print(shown_.update(values, unix_ns)));
    const auto pause = pauses_.update(values);
    ++answers_;
    const bool is_last = watch_.times > 0 && answers_ >= watch_.times;
    if (is_last && !pause) return Next::kEnd;
    pause_ = pause.value_or("");
    return pause ? Next::kPause : Next::kNext;
  }

  const Options& options_;
  const WatchOptions& watch_;
  Client& client_;
  ValueSource& source_;
  pb::ListValuesRequest request_;
  WatchedValues shown_;
  Pauses pauses_;
  std::string pause_;  // the last pause shown
  std::uint64_t answers_ = 0;
};

absl::Status run_resume(const Options& options) {
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const std::uint32_t waiting, client.resume(pid));
  if (waiting == 0) return print(absl::StrCat("no thread of pid ", pid, " waits in a pause\n"));
  return print(absl::StrCat("pid ", pid, " resumed\n"));
}

}  // namespace

absl::Status run_watch(const Options& options, const WatchOptions& watch) {
  Client client(options.endpoint);
  ValueSource source(client, watch.no_daemon);
  ASSIGN_OR_RETURN(const int pid, source.open(options.pid));
  if (watch.keep || watch.forget) return keep(watch, client, pid);
  return Watch(options, watch, client, source, pid).run();
}

void add_resume(const CommandLine& line, CLI::App& app) {
  line.set_up(app, "Resume a program that waits at a pause point", &run_resume);
  add_pid(app, line.options().pid);
}

void add_watch(const CommandLine& line, CLI::App& app) {
  WatchOptions& watch = line.set_up(app, "Print values as they change", &run_watch);
  app.add_option("names", watch.names, "Names or patterns, as `memprofctl values` prints them")
      ->type_name("REGEX")
      ->required();
  add_pid(app, line.options().pid);
  app.add_option("-d,--interval", watch.period, "Seconds between reads")
      ->check(in_range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("-n,--count", watch.times, "Stop after N reads");
  app.add_flag("--contents", watch.with_contents,
               "Show the contents of strings, which may be secret");
  CLI::Option* keep =
      app.add_flag("--keep", watch.keep,
                   "Record these module values in memprofd for `values history`, then exit");
  CLI::Option* forget =
      app.add_flag("--forget", watch.forget, "Stop recording these values")->excludes(keep);
  add_no_daemon(app, watch.no_daemon)->excludes(keep)->excludes(forget);
  add_format(app, line.options().format, {kTable, kJson});
}

}  // namespace memprofd::ctl
