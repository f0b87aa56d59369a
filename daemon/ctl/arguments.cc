// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/arguments.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/render/text.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {

absl::StatusOr<int> choose_pid(int asked, const pb::ListTargetsResponse& targets) {
  if (asked < 0) return absl::InvalidArgumentError(absl::StrCat("bad pid ", asked));
  if (asked > 0) return asked;
  std::vector<int> all, active;
  for (const pb::Target& target : targets.targets()) {
    all.push_back(target.pid());
    if (is_active(target.state())) active.push_back(target.pid());
  }
  if (active.size() == 1) return active[0];
  if (all.size() == 1) return all[0];
  if (all.empty()) {
    return absl::NotFoundError("no targets; attach with `memprofctl attach PID`");
  }
  if (active.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no target is active, and ", all.size(),
                                                   " have ended; choose with --pid: `memprofctl "
                                                   "targets` lists them"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("several targets (pids ", absl::StrJoin(active, ", "), "); choose with --pid"));
}

absl::StatusOr<double> rate_of(const std::string& rate, const std::string& interval) {
  if (!rate.empty() && !interval.empty()) {
    return absl::InvalidArgumentError("give a sampling rate or an interval, not both");
  }
  if (!rate.empty()) return parse_rate(rate);
  if (!interval.empty()) return parse_sampling_interval(interval);
  return 0.0;
}

std::string command_with_pause(const absl::Status& refused, const std::string& command) {
  const auto refusal = pause_refusal_of(refused);
  if (!refusal) return "";
  return absl::StrCat(command, " --max-pause ",
                      format_duration_argument(refusal->enough_seconds()));
}

std::string with_endpoint(std::string_view message, const Endpoint& endpoint) {
  constexpr std::string_view kBegin = "`memprofctl ";
  std::string out;
  while (true) {
    const std::size_t at = message.find(kBegin);
    const std::size_t end =
        at == std::string_view::npos ? at : message.find('`', at + kBegin.size());
    if (end == std::string_view::npos) return out.append(message);
    const std::string words(message.substr(at + kBegin.size(), end - at - kBegin.size()));
    const bool is_complete = absl::StrContains(words, "--grpc.socket") ||
                             absl::StrContains(words, "--address") ||
                             absl::StrContains(words, "--help");
    out.append(message.substr(0, at + 1));
    out += is_complete ? "memprofctl " + words : endpoint.command(words);
    out += '`';
    message.remove_prefix(end + 1);
  }
}

}  // namespace memprofd::ctl
