// SPDX-License-Identifier: Apache-2.0
// memprofd: reads the command line, starts the parts, waits for a signal.

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/attach/kernel/kernel_features.h"
#include "daemon/config.h"
#include "daemon/control/daemon.h"
#include "daemon/control/look.h"
#include "daemon/discover/memory_server.h"
#include "daemon/export/grpc/grpc_server.h"
#include "daemon/export/http/api_routes.h"
#include "daemon/export/http/control_routes.h"
#include "daemon/export/http/health_routes.h"
#include "daemon/export/http/http_server.h"
#include "daemon/export/http/web_page.h"
#include "daemon/export/metrics/prometheus_exporter.h"
#include "daemon/trace/trace_files.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/fd.h"
#include "daemon/util/log.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"
#include "daemon/util/version.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

// How long looks that were given up may take to end with memprofd.
constexpr std::chrono::milliseconds kLastLookPatience{200};

int fail(const absl::Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return static_cast<int>(exit_code_of(status));
}

// SIGINT and SIGTERM are read from the descriptor, and taken by no thread started from here on.
UniqueFd block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  UniqueFd descriptor(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!descriptor) std::abort();
  return descriptor;
}

bool is_readable(const UniqueFd& fd, int timeout_ms) {
  pollfd wait{fd.get(), POLLIN, 0};
  return ::poll(&wait, 1, timeout_ms) == 1;
}

// Waits for one of the signals, and says so.
void take_signal(const UniqueFd& signals) {
  signalfd_siginfo info{};
  while (::read(signals.get(), &info, sizeof info) != sizeof info) {
  }
  spdlog::info("{}: detaching", info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
}

absl::Status check_machine() {
  const std::string missing = missing_kernel_features(check_kernel_features());
  if (missing.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(missing);
}

// Each target keeps some descriptors open, each of its plugins one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

void say_attached(const TargetInfo& info) {
  const std::string comm = printable(info.comm);
  const std::string message = printable(info.message);
  if (info.state == TargetState::kSampling && info.follows_blocks()) {
    std::printf("pid %d: %s (OCaml %s), mode %s, %s, stopped for %s in all\n", info.pid,
                comm.c_str(), info.runtime_version.c_str(),
                std::string(mode_name(info.mode)).c_str(), format_rate(info.sampling_rate).c_str(),
                format_duration(info.paused_seconds).c_str());
  } else {
    std::printf("pid %d: %s (OCaml %s), %s\n", info.pid, comm.c_str(), info.runtime_version.c_str(),
                message.c_str());
  }
}

// Attaches to every pid; the first failure is returned only when none succeeded.
absl::Status attach_all(Daemon& daemon, const Config& config) {
  absl::Status first_failure;
  bool any = config.pids.empty();
  for (const int pid : config.pids) {
    const auto info = daemon.attach({.pid = pid});
    if (info.ok()) {
      any = true;
      say_attached(*info);
      continue;
    }
    if (daemon.cancelled()) break;
    spdlog::error("{}", std::string(info.status().message()));
    if (first_failure.ok()) first_failure = info.status();
  }
  return any ? absl::OkStatus() : first_failure;
}

// The attaches of the command line in a thread of their own, as long as no signal comes: the
// result when they have ended.
std::optional<absl::Status> attach_until_signal(Daemon& daemon, const Config& config,
                                                const UniqueFd& signals) {
  constexpr int kPollMs = 10;
  auto attaching = std::async(std::launch::async, [&] { return attach_all(daemon, config); });
  while (attaching.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (!is_readable(signals, kPollMs)) continue;
    daemon.cancel_requests();
    attaching.wait();
    return std::nullopt;
  }
  return attaching.get();
}

DaemonOptions daemon_options(const Config& config) {
  DaemonOptions options;
  options.attach.agent_path = config.agent_path.empty() ? default_agent_path() : config.agent_path;
  options.attach.no_inject = config.no_inject;
  options.attach.follow_forks = config.follow_forks;
  options.mode = config.mode;
  options.attach.capture = config.capture;
  options.attach.max_frames = config.max_frames;
  options.attach.ring_bytes = config.ring_bytes;
  options.sampling_rate = config.sampling_rate;
  options.max_overhead = config.max_overhead;
  options.history_bytes = config.history_bytes;
  options.retention = std::chrono::seconds(static_cast<std::int64_t>(config.retention_seconds));
  return options;
}

// What the servers serve.
struct Services {
  Services(Daemon& daemon, const Config& config)
      : exporter(daemon, program_version(), config.top_sites),
        queries(daemon),
        control(daemon),
        traces(daemon, {.directory = config.trace_directory}) {}

  HttpRoutes routes(bool control_allowed) {
    HttpRoutes routes = make_routes(exporter, [this] { return ready.load(); });
    add_api_routes(queries, traces, stopping, routes);
    add_control_routes(control, control_allowed, routes);
    add_web_page(version_text(program_version()), control_allowed, routes);
    return routes;
  }
  // Ends what takes its time, soon.
  void stop() {
    stopping.stop();
    traces.stop();
  }

  const PrometheusExporter exporter;
  QueryService queries;
  ControlService control;
  TraceService traces;
  StopSignal stopping;
  std::atomic<bool> ready = false;
};

absl::Status check_directory(const Config& config) {
  if (config.trace_directory.empty()) return absl::OkStatus();
  return check_trace_directory(config.trace_directory);
}

void say_ready(const std::string& url, const Config& config) {
  std::printf(
      "page at %s, metrics at %s/metrics; in the terminal: memprofctl top --grpc.socket %s\n",
      url.c_str(), url.c_str(), config.grpc_socket.c_str());
  std::fflush(stdout);
}

int run(const Config& config) {
  start_memory_nursery();  // while this process is small
  raise_descriptor_limit();
  const UniqueFd signals = block_signals();
  if (auto status = check_machine(); !status.ok()) return fail(status);
  if (auto status = check_directory(config); !status.ok()) return fail(status);

  auto daemon = std::make_unique<Daemon>(daemon_options(config));
  Services services(*daemon, config);
  auto http = HttpServer::start(
      {config.web_listen_address, config.web_config_file, config.web_enable_control},
      services.routes(config.web_enable_control));
  if (!http.ok()) return fail(http.status());
  auto grpc =
      GrpcServer::start({config.grpc_socket, config.grpc_listen_address}, *daemon, services.traces);
  if (!grpc.ok()) return fail(grpc.status());

  const auto attached = attach_until_signal(*daemon, config, signals);
  if (attached && !attached->ok()) return static_cast<int>(exit_code_of(*attached));
  if (attached) {
    services.ready = true;
    say_ready((*http)->url(), config);
  }
  take_signal(signals);
  daemon->cancel_requests();  // before the servers wait for those who ask
  services.stop();
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  const memprofd::ParsedConfig parsed = memprofd::parse_config(argc, argv);
  if (!parsed.run) return parsed.exit_code;
  memprofd::set_up_log(parsed.config.log_level, parsed.config.log_format);
  const int code = memprofd::run(parsed.config);
  // A look that hangs in a file system may never end: nothing waits for it.
  if (memprofd::LookThreads::wait_for_all(memprofd::kLastLookPatience)) return code;
  spdlog::shutdown();
  std::fflush(stdout);
  _exit(code);
}
