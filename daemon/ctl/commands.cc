#include "daemon/ctl/commands.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/doctor.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/render_json.h"
#include "daemon/ctl/render_report.h"
#include "daemon/ctl/render_table.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

constexpr int kTableLimit = 20;
constexpr int kReportLimit = 10;

Style stdout_style() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  winsize size{};
  ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return {true, size.ws_col};
}

absl::Status print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return absl::InternalError("cannot write to stdout");
  }
  return absl::OkStatus();
}

absl::Status print_target(const Options& options, const pb::Target& target) {
  return print(options.json ? target_json(target) : target_line(target));
}

absl::StatusOr<int> pid_to_use(Client& client, int asked) {
  if (asked != 0) return choose_pid(asked, {});
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, client.list_targets());
  return choose_pid(asked, targets);
}

absl::StatusOr<pb::ListSitesResponse> ask_sites(const Options& options, int default_limit) {
  Client client(options.endpoint);
  pb::ListSitesRequest request;
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  request.set_order(options.order);
  request.set_limit(options.limit >= 0 ? options.limit : default_limit);
  request.set_pattern(options.pattern);
  return client.list_sites(request);
}

}  // namespace

absl::Status run_targets(const Options& options) {
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, Client(options.endpoint).list_targets());
  return print(options.json ? targets_json(targets) : targets_table(targets, stdout_style()));
}

absl::Status run_attach(const Options& options) {
  if (options.pid <= 0) return absl::InvalidArgumentError("which process? give --pid PID");
  pb::AttachRequest request;
  request.set_pid(options.pid);
  request.set_no_inject(options.no_inject);
  ASSIGN_OR_RETURN(const double rate, rate_of(options.rate, options.interval));
  request.set_sampling_rate(rate);
  Client client(options.endpoint);
  const Progress progress(absl::StrCat("attaching to pid ", options.pid));
  ASSIGN_OR_RETURN(const pb::Target target, client.attach(request));
  return print_target(options, target);
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
  if (rate == 0) {
    return absl::InvalidArgumentError(
        "which rate? give samples per word (1e-5) or --sampling-interval 512KiB");
  }
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const pb::Target target, client.set_rate(pid, rate));
  return print_target(options, target);
}

absl::Status run_sites(const Options& options) {
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response,
                   ask_sites(options, options.json ? 0 : kTableLimit));
  return print(options.json ? sites_json(response)
                            : sites_table(response, options.callstacks, stdout_style()));
}

absl::Status run_report(const Options& options) {
  ASSIGN_OR_RETURN(const pb::ListSitesResponse response, ask_sites(options, kReportLimit));
  return print(options.json ? sites_json(response) : report_text(response, options.order));
}

absl::Status run_top_command(const Options& options) {
  if (options.json) {
    return absl::InvalidArgumentError("top has no JSON; use: memprofctl sites -o json");
  }
  Client client(options.endpoint);
  TopOptions top = options.top;
  ASSIGN_OR_RETURN(top.pid, pid_to_use(client, options.pid));
  top.order = options.order;
  top.pattern = options.pattern;
  if (options.limit >= 0) top.limit = options.limit;
  top.plain |= ::isatty(STDOUT_FILENO) == 0 || ::isatty(STDIN_FILENO) == 0;
  return run_top(client, top);
}

absl::Status run_doctor(const Options& options) {
  if (options.pid < 0) return absl::InvalidArgumentError(absl::StrCat("bad pid ", options.pid));
  Client client(options.endpoint);
  absl::StatusOr<pb::DiagnoseResponse> response = client.diagnose(options.pid);
  const absl::Status unreachable = response.status();
  if (!response.ok()) response = local_findings(unreachable, options.pid);
  RETURN_IF_ERROR(
      print(options.json ? findings_json(*response) : findings_text(*response, stdout_style())));
  return unreachable.ok() ? verdict(*response, options.pid) : unreachable;
}

}  // namespace memprofd::ctl
