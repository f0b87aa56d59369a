// SPDX-License-Identifier: Apache-2.0
// memprofctl watch: chosen values of a program, again and again.
#include <algorithm>
#include <chrono>
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

}  // namespace

absl::Status run_watch(const Options& options) {
  using Clock = std::chrono::steady_clock;
  Client client(options.endpoint);
  pb::ListValuesRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  request.set_pattern(any_of(options.watched));
  request.set_with_contents(options.with_contents);
  WatchedValues shown;
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
  }
  return absl::OkStatus();
}

}  // namespace memprofd::ctl
