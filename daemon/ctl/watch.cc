// SPDX-License-Identifier: Apache-2.0
// memprofctl watch: chosen values of a program, again and again, until it pauses; memprofctl
// resume.
#include <unistd.h>

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
#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_watch.h"
#include "daemon/export/api/message_json.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// Any of the names, found anywhere.
std::string any_of(const std::vector<std::string>& names) {
  return absl::StrCat("(?:", absl::StrJoin(names, ")|(?:"), ")");
}

absl::Status print_json_line(const pb::ListValuesResponse& values) {
  ASSIGN_OR_RETURN(const std::string text, message_json(values, false));
  return print(text + "\n");
}

// Pauses of the program that this has not seen.
class Pauses {
 public:
  // The name of a new one; nothing at the first look, unless the program waits in it.
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

// Whether to go on: somebody at a terminal has said so.
absl::StatusOr<bool> stop_at(const std::string& pause, const Options& options, Client& client,
                             int pid) {
  const bool is_asked = ::isatty(STDIN_FILENO) != 0 && !options.json();
  if (!options.json()) {
    RETURN_IF_ERROR(
        print(absl::StrCat("pause ", printable(pause), is_asked ? "; Enter goes on" : "", "\n")));
  }
  if (!is_asked) return false;
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  RETURN_IF_ERROR(client.resume(pid).status());
  return true;
}

// Has memprofd keep what is watched, of modules, over time; or no longer.
absl::Status keep(const Options& options, Client& client, int pid) {
  pb::KeepValuesRequest request;
  request.set_pid(pid);
  request.set_pattern(any_of(options.watched));
  request.set_forget(options.forget_watched);
  ASSIGN_OR_RETURN(const pb::KeepValuesResponse kept, client.keep_values(request));
  const std::string names = kept.names().empty() ? "nothing" : absl::StrJoin(kept.names(), ", ");
  return print(absl::StrCat("kept of modules of pid ", pid, ": ", printable(names), "\n"));
}

}  // namespace

absl::Status run_resume(const Options& options) {
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const std::uint32_t waiting, client.resume(pid));
  if (waiting == 0) return print(absl::StrCat("nothing of pid ", pid, " waits in a pause\n"));
  return print(absl::StrCat("pid ", pid, " goes on\n"));
}

absl::Status run_watch(const Options& options) {
  using Clock = std::chrono::steady_clock;
  Client client(options.endpoint);
  pb::ListValuesRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  if (options.keep_watched || options.forget_watched) return keep(options, client, pid);
  request.set_pid(pid);
  request.set_pattern(any_of(options.watched));
  request.set_with_contents(options.with_contents);
  WatchedValues shown;
  Pauses pauses;
  const auto period = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(options.watch_period));
  auto next = Clock::now();
  for (std::uint64_t i = 0; options.watch_times == 0 || i < options.watch_times; ++i) {
    std::this_thread::sleep_until(next);
    next = std::max(next + period, Clock::now());
    ASSIGN_OR_RETURN(const pb::ListValuesResponse values, client.list_values(request));
    if (values.reported().empty() && values.values().empty()) {
      return absl::NotFoundError(absl::StrCat("no value of pid ", pid, " is called '",
                                              absl::StrJoin(options.watched, "' or '"),
                                              "'; `memprofctl values` lists them"));
    }
    RETURN_IF_ERROR(options.json()
                        ? print_json_line(values)
                        : print(shown.update(values, static_cast<std::int64_t>(realtime_ns()))));
    if (const auto pause = pauses.update(values)) {
      ASSIGN_OR_RETURN(const bool goes_on, stop_at(*pause, options, client, pid));
      if (!goes_on) break;
    }
  }
  return absl::OkStatus();
}

}  // namespace memprofd::ctl
