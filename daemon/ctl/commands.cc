// SPDX-License-Identifier: Apache-2.0
// Commands that control memprofd.
#include "daemon/ctl/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/doctor.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/render/render_rss.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/model/control.h"
#include "daemon/util/one_of.h"
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

void add_budget(CLI::App& app, std::string& max_overhead, const std::string& unless_given) {
  app.add_option("--max-overhead", max_overhead,
                 "Cap profiling at this share of the target's own CPU time by lowering its "
                 "sampling rate; 'none' for no cap (" +
                     unless_given + ")")
      ->type_name("PERCENT");
}

template <typename Request>
absl::Status set_budget(const std::string& max_overhead, Request& request) {
  if (max_overhead.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double share, parse_budget(max_overhead));
  request.set_max_overhead(share);
  return absl::OkStatus();
}

// ---------------------------------------------------------------- targets

struct TargetsOptions {
  bool ended = false;
  bool discovered = false;
};

// Keeps only ended targets, the latest first.
void leave_ended(google::protobuf::RepeatedPtrField<pb::Target>& targets) {
  const auto runs = [](const pb::Target& target) { return target.ended_unix_ns() == 0; };
  targets.erase(std::remove_if(targets.begin(), targets.end(), runs), targets.end());
  std::sort(targets.begin(), targets.end(), [](const pb::Target& a, const pb::Target& b) {
    return a.ended_unix_ns() > b.ended_unix_ns();
  });
}

absl::Status run_targets(const Options& options, const TargetsOptions& own) {
  ASSIGN_OR_RETURN(pb::ListTargetsResponse targets,
                   Client(options.endpoint).list_targets(own.discovered));
  if (own.ended) leave_ended(*targets.mutable_targets());
  if (options.json()) return print_json(targets);
  if (own.discovered) return print(discovered_table(targets, stdout_style()));
  if (!own.ended) return print(running_targets_text(targets, stdout_style(), options.endpoint));
  return print(ended_table(targets, absl::ToUnixNanos(absl::Now()), stdout_style()));
}

// ---------------------------------------------------------------- attach, detach, rate

struct AttachOptions {
  std::string max_overhead;  // "1%", "none"
  bool if_needed = false;
  bool no_inject = false;
  bool follow_forks = false;
  bool native_heap = false;
  std::string native_heap_interval;  // "512KiB"
  pb::AttachMode mode = pb::ATTACH_MODE_UNSPECIFIED;
};

absl::Status set_native_heap(const AttachOptions& own, pb::AttachRequest& request) {
  if (own.native_heap) request.set_c_heap_interval(kUsualNativeHeapInterval);
  if (own.native_heap_interval.empty()) return absl::OkStatus();
  std::uint64_t interval = 0;  // 0: not followed, whatever memprofd's options are
  if (own.native_heap_interval != "0") {
    ASSIGN_OR_RETURN(interval, parse_size(own.native_heap_interval));
  }
  request.set_c_heap_interval(interval);
  return absl::OkStatus();
}

absl::Status run_attach(const Options& options, const AttachOptions& own) {
  if (options.pid <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad pid ", options.pid, ": write a number above 0"));
  }
  pb::AttachRequest request;
  request.set_pid(options.pid);
  request.set_if_needed(own.if_needed);
  request.set_no_inject(own.no_inject);
  request.set_follow_forks(own.follow_forks);
  request.set_mode(own.mode);
  ASSIGN_OR_RETURN(const double rate, rate_of(options.rate, options.interval));
  request.set_sampling_rate(rate);
  RETURN_IF_ERROR(set_budget(own.max_overhead, request));
  RETURN_IF_ERROR(set_native_heap(own, request));
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

struct RateOptions {
  std::string max_overhead;  // "1%", "none"
};

absl::Status run_rate(const Options& options, const RateOptions& own) {
  ASSIGN_OR_RETURN(const double rate, rate_of(options.rate, options.interval));
  if (rate == 0 && own.max_overhead.empty()) {
    return absl::InvalidArgumentError(
        "missing rate: give samples per word (1e-5), --sampling-interval 512KiB or --max-overhead "
        "1%");
  }
  pb::SetRateRequest request;
  request.set_sampling_rate(rate);
  RETURN_IF_ERROR(set_budget(own.max_overhead, request));
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  request.set_pid(pid);
  ASSIGN_OR_RETURN(const pb::Target target, client.set_rate(request));
  return print_target(options, target);
}

// ---------------------------------------------------------------- doctor, info, rss

// kUnavailable without a daemon, kPermissionDenied when kernel or privileges have a problem,
// kFailedPrecondition when the program has one.
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

struct RssOptions {
  std::size_t files = 10;  // 0: all
  bool owners = false;
};

absl::Status run_rss(const Options& options, const RssOptions& own) {
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const int pid, pid_to_use(client, options.pid));
  ASSIGN_OR_RETURN(const pb::GetRssResponse response, client.get_rss(pid, own.owners));
  if (options.json()) return print_json(response);
  return print(rss_text(response, own.files, stdout_style()));
}

}  // namespace

absl::StatusOr<int> pid_to_use(Client& client, int asked, bool no_daemon) {
  if (asked == 0 && no_daemon) {
    return absl::InvalidArgumentError("--no-daemon requires --pid PID");
  }
  if (asked != 0) return choose_pid(asked, {});
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, client.list_targets());
  return choose_pid(asked, targets);
}

void add_targets(const CommandLine& line, CLI::App& app) {
  TargetsOptions& own =
      line.set_up(app, "List targets, the processes that are profiled", &run_targets);
  CLI::Option* ended =
      app.add_flag("--ended", own.ended, "List ended targets and how they ended, latest first");
  app.add_flag("--all", own.discovered,
               "List all OCaml processes on memprofd's machine, and why each is or is not profiled")
      ->excludes(ended);
  add_format(app, line.options().format, {kTable, kJson});
}

void add_attach(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  AttachOptions& own = line.set_up(app, "Start profiling a running process", &run_attach);
  app.add_option("pid,--pid", options.pid, "Process to profile")->required();
  add_sampling_rate(app, "--sampling-rate,--rate", options.rate, options.interval);
  add_budget(app, own.max_overhead, "default: as memprofd was started");
  add_format(app, options.format, {kTable, kJson});
  app.add_flag("--if-needed", own.if_needed, "Succeed without a change if it is already profiled");
  app.add_flag("--no-inject", own.no_inject,
               "Use only an agent that the process has loaded itself; inject nothing");
  app.add_flag("--follow-forks", own.follow_forks,
               "Also profile the children that it forks, each as a target");
  app.add_flag("--c-heap", own.native_heap,
               "Also sample the native heap (malloc), shown as heap=c");
  app.add_option(
         "--c-heap-interval", own.native_heap_interval,
         "Sample the native heap once per SIZE allocated bytes; 0: do not (default: 512KiB)")
      ->type_name("SIZE");
  app.add_option("--mode", own.mode,
                 "How to attach: auto, agent, or observe, which injects nothing and shows "
                 "allocations only (default: as memprofd was started)")
      ->transform(one_of<pb::AttachMode>({{"auto", pb::ATTACH_MODE_AUTO},
                                          {"agent", pb::ATTACH_MODE_AGENT},
                                          {"observe", pb::ATTACH_MODE_OBSERVE}}))
      ->type_name("MODE");
}

void add_detach(const CommandLine& line, CLI::App& app) {
  line.set_up(app, "Stop profiling a target; its counts stay readable", &run_detach);
  add_pid(app, line.options().pid, "pid,--pid");
  add_format(app, line.options().format, {kTable, kJson});
}

void add_rate(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  RateOptions& own =
      line.set_up(app, "Change a target's sampling rate, its overhead budget, or both", &run_rate);
  add_pid(app, options.pid);
  add_sampling_rate(app, "rate,--sampling-rate", options.rate, options.interval);
  add_budget(app, own.max_overhead, "default: unchanged");
  add_format(app, options.format, {kTable, kJson});
}

void add_doctor(const CommandLine& line, CLI::App& app) {
  line.set_up(app, "Check kernel, privileges and a process, and suggest remedies", &run_doctor);
  app.add_option("pid,--pid", line.options().pid,
                 "Also check this process (default: only the kernel and the privileges)");
  add_format(app, line.options().format, {kTable, kJson});
}

void add_info(const CommandLine& line, CLI::App& app) {
  line.set_up(app, "Show version, features and limits of the running memprofd", &run_info);
  add_format(app, line.options().format, {kTable, kJson});
}

void add_rss(const CommandLine& line, CLI::App& app) {
  RssOptions& own = line.set_up(
      app, "Break down the resident memory of a process, whether it is a target or not", &run_rss);
  add_pid(app, line.options().pid, "pid,--pid");
  app.add_option("-n,--limit", own.files, "Show at most N files and arenas (0: all)")
      ->capture_default_str();
  app.add_flag("--owners", own.owners,
               "Show the native memory that custom blocks own: Bigarrays, streams, channels");
  add_format(app, line.options().format, {kTable, kJson});
}

}  // namespace memprofd::ctl
