// SPDX-License-Identifier: Apache-2.0
// memprofctl values set: what a program says about itself, off, on, or more and less often.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
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

// "off, each 100 ms"
std::string what_is_asked(const pb::AdjustRequest& request) {
  std::vector<std::string> parts;
  if (request.has_enabled()) parts.push_back(request.enabled() ? "on" : "off");
  if (request.has_period_ms()) {
    parts.push_back(request.period_ms() == 0 ? "with the period of the program"
                                             : absl::StrCat("each ", request.period_ms(), " ms"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

absl::Status run_adjust(const Options& options) {
  pb::AdjustRequest request;
  request.set_pattern(options.value_pattern);
  RETURN_IF_ERROR(add_labels(options.labels, request));
  if (options.switch_on || options.switch_off) request.set_enabled(options.switch_on);
  if (options.period_ms) request.set_period_ms(*options.period_ms);
  const std::string asked = what_is_asked(request);
  if (asked.empty()) {
    return absl::InvalidArgumentError("nothing to change: give --off, --on or --period");
  }
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  ASSIGN_OR_RETURN(const pb::AdjustResponse done, client.adjust(request));
  return print(absl::StrCat(done.count(), " of pid ", pid, ": ", asked, "\n"));
}

}  // namespace memprofd::ctl
