// SPDX-License-Identifier: Apache-2.0
// Commands that control memprofd.
#include "daemon/ctl/commands.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/doctor.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/render/render_rss.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/model/control.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

absl::Status print_target(const Options& options, pb::Target target) {
  if (!options.json()) return print(target_line(target));
  pb::DetachResponse response;  // SetRate's response has the same form
  *response.mutable_target() = std::move(target);
  return print_json(response);
}

template <typename Request>
absl::Status set_budget(const Options& options, Request& request) {
  if (options.max_overhead.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double share, parse_budget(options.max_overhead));
  request.set_max_overhead(share);
  return absl::OkStatus();
}

// Keeps only ended targets, the latest first.
void leave_ended(google::protobuf::RepeatedPtrField<pb::Target>& targets) {
  const auto runs = [](const pb::Target& target) { return target.ended_unix_ns() == 0; };
  targets.erase(std::remove_if(targets.begin(), targets.end(), runs), targets.end());
  std::sort(targets.begin(), targets.end(), [](const pb::Target& a, const pb::Target& b) {
    return a.ended_unix_ns() > b.ended_unix_ns();
  });
}

}  // namespace

absl::StatusOr<int> pid_to_use(Client& client, int asked) {
  if (asked != 0) return choose_pid(asked, {});
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, client.list_targets());
  return choose_pid(asked, targets, client.endpoint());
}

absl::Status run_targets(const Options& options) {
  ASSIGN_OR_RETURN(pb::ListTargetsResponse targets,
                   Client(options.endpoint).list_targets(options.discovered));
  if (options.ended) leave_ended(*targets.mutable_targets());
  if (options.json()) return print_json(targets);
  if (options.discovered) return print(discovered_table(targets, stdout_style()));
  if (!options.ended) return print(running_targets_text(targets, stdout_style(), options.endpoint));
  return print(ended_table(targets, absl::ToUnixNanos(absl::Now()), stdout_style()));
}

namespace {

absl::Status set_native_heap(const Options& options, pb::AttachRequest& request) {
  if (options.native_heap) request.set_c_heap_interval(kUsualNativeHeapInterval);
  if (options.native_heap_interval.empty()) return absl::OkStatus();
  std::uint64_t interval = 0;  // 0: not followed, whatever memprofd's options are
  if (options.native_heap_interval != "0") {
    ASSIGN_OR_RETURN(interval, parse_size(options.native_heap_interval));
  }
  request.set_c_heap_interval(interval);
  return absl::OkStatus();
}

}  // namespace

absl::Status run_attach(const Options& options) {
  if (options.pid <= 0) return absl::InvalidArgumentError("missing argument --pid PID");
  pb::AttachRequest request;
  request.set_pid(options.pid);
  request.set_if_needed(options.if_needed);
  request.set_no_inject(options.no_inject);
  request.set_follow_forks(options.follow_forks);
  request.set_mode(options.mode);
  ASSIGN_OR_RETURN(const double rate, rate_of(options.rate, options.interval));
  request.set_sampling_rate(rate);
  RETURN_IF_ERROR(set_budget(options, request));
  RETURN_IF_ERROR(set_native_heap(options, request));
  Client client(options.endpoint);
  const Progress progress(absl::StrCat("attaching to pid ", options.pid));
  ASSIGN_OR_RETURN(const pb::AttachResponse response, client.attach(request));
  if (options.json()) return print_json(response);
  return print(attach_text(response, options.endpoint));
}

absl::Status run_detach(const Options& options) {
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  const Progress progress(absl::StrCat("detaching from pid ", pid));
  ASSIGN_OR_RETURN(const pb::Target target, client.detach(pid));
  return print_target(options, target);
}

absl::Status run_rate(const Options& options) {
  ASSIGN_OR_RETURN(const double rate, rate_of(options.rate, options.interval));
  if (rate == 0 && options.max_overhead.empty()) {
    return absl::InvalidArgumentError(
        "missing rate: give samples per word (1e-5), --sampling-interval 512KiB or --max-overhead "
        "1%");
  }
  pb::SetRateRequest request;
  request.set_sampling_rate(rate);
  RETURN_IF_ERROR(set_budget(options, request));
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  ASSIGN_OR_RETURN(const pb::Target target, client.set_rate(request));
  return print_target(options, target);
}

absl::Status run_doctor(const Options& options) {
  if (options.pid < 0) return absl::InvalidArgumentError(absl::StrCat("bad pid ", options.pid));
  Client client(options.endpoint);
  absl::StatusOr<pb::DiagnoseResponse> response = client.diagnose(options.pid);
  const absl::Status unreachable = response.status();
  if (!response.ok()) response = local_findings(unreachable, options.pid);
  RETURN_IF_ERROR(options.json() ? print_json(*response)
                                 : print(findings_text(*response, stdout_style())));
  return unreachable.ok() ? verdict(*response, options.pid) : unreachable;
}

absl::Status run_info(const Options& options) {
  ASSIGN_OR_RETURN(const pb::GetServerInfoResponse info, Client(options.endpoint).server_info());
  return options.json() ? print_json(info) : print(info_text(info));
}

absl::Status run_rss(const Options& options) {
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const pb::GetRssResponse response, client.get_rss(pid, options.rss_owners));
  if (options.json()) return print_json(response);
  return print(rss_text(response, options.rss_files, stdout_style()));
}

}  // namespace memprofd::ctl
