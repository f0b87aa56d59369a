// SPDX-License-Identifier: Apache-2.0
// memprofd: reads the command line, starts the parts, waits for a signal.

#include <grpc/support/log.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/attach/kernel/kernel_features.h"
#include "daemon/attach/kernel/kernel_object.h"
#include "daemon/attach/kernel/kernel_walk.h"
#include "daemon/config.h"
#include "daemon/control/daemon.h"
#include "daemon/control/inspection.h"
#include "daemon/control/program_watch.h"
#include "daemon/control/rule_watch.h"
#include "daemon/discover/memory/memory_server.h"
#include "daemon/export/api/server_info.h"
#include "daemon/export/grpc/grpc_server.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/export/heaps/census_thread.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/export/http/api_routes.h"
#include "daemon/export/http/control_routes.h"
#include "daemon/export/http/http_server.h"
#include "daemon/export/http/page_routes.h"
#include "daemon/export/metrics/prometheus_exporter.h"
#include "daemon/signals.h"
#include "daemon/state/state_store.h"
#include "daemon/trace/trace_files.h"
#include "daemon/util/byte_budget.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/log.h"
#include "daemon/util/paths.h"
#include "daemon/util/process_stats.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/spare_thread.h"
#include "daemon/util/threads/start_thread.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"
#include "daemon/util/version.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Time for abandoned inspections to end with memprofd.
constexpr milliseconds kLastInspectionPatience{200};
constexpr milliseconds kPoll{10};
constexpr milliseconds kSearch{2'000}, kSlowSearch{10'000};  // interval between searches for
                                                             // programs
constexpr int kArenas = 2;
// More threads than the servers and other parts start with.
constexpr int kThreads = 48;
// Far more than needed; before Linux 6.6 a detach takes some tenths of a second per program.
constexpr milliseconds kDetachPatience{40'000};
constexpr milliseconds kServersPatience{3'500};
// For a start that is abandoned, because what it waits for may never come.
constexpr milliseconds kStartPatience{1'000};
// Signals within this time are one request: timeout(1) sends its signal twice, and a terminal that
// closes sends several.
constexpr milliseconds kOneRequest{250};
// The control thread never works this long on one thing.
constexpr double kSilentTooLongSeconds = 30;

int fail(const absl::Status& status) {
  log_error("{}", std::string(status.message()));
  return static_cast<int>(exit_code_of(status));
}

// The requested configuration, adapted to this machine.
absl::StatusOr<Config> fit_to_machine(Config config) {
  RETURN_IF_ERROR(kernel_features_status(check_kernel_features()));
  RETURN_IF_ERROR(learn_kernel_features());
  if (config.mode == AttachMode::kObserve) RETURN_IF_ERROR(check_kernel_walks("--mode observe"));
  ASSIGN_OR_RETURN(config.capture, capture_here(config.capture));
  return config;
}

// Memory that a large answer has taken stays with the arena of malloc that its thread has used, and
// by default there are eight of those for each processor. Attaches are threads, too: what is kept
// of a program is strewn over pages of theirs that are else unused.
void have_few_arenas() { (void)::mallopt(M_ARENA_MAX, kArenas); }

// Each target keeps some descriptors open, and each of its plugins one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

void log_attached(const TargetInfo& info) {
  const std::string comm = printable(info.comm);
  const std::string message = printable(info.message);
  if (info.state == TargetState::kSampling && info.follows_blocks()) {
    std::printf("pid %d: %s (OCaml %s), mode %s, %s, stopped for %s in all\n", info.pid,
                comm.c_str(), info.runtime_version.c_str(),
                std::string(mode_name(info.mode)).c_str(), format_rate(info.sampling_rate).c_str(),
                format_duration(info.paused_seconds).c_str());
  } else {
    std::printf("pid %d: %s (OCaml %s), %s\n", info.pid, comm.c_str(), info.runtime_version.c_str(),
                message.empty() ? "the attach continues" : message.c_str());
  }
}

// Attaches to every pid; the first failure is returned only when none succeeded.
absl::Status attach_all(Daemon& daemon, const Config& config) {
  absl::Status first_failure;
  bool any = config.pids.empty();
  for (const int pid : config.pids) {
    if (daemon.resumes(pid)) {
      std::printf("pid %d: resumed with the settings of the previous memprofd\n", pid);
      any = true;
      continue;
    }
    const auto info = daemon.attach({.pid = pid});
    if (info.ok()) {
      any = true;
      log_attached(*info);
      continue;
    }
    if (daemon.cancelled()) break;
    log_error("{}", std::string(info.status().message()));
    if (first_failure.ok()) first_failure = info.status();
  }
  return any ? absl::OkStatus() : first_failure;
}

// Programs that were detached, or could not be profiled, are also ignored by the next memprofd.
absl::Status attach_named(Daemon& daemon, int pid, std::uint64_t start_time_ticks) {
  for (const ProfileSnapshotPtr& target : daemon.snapshots()) {
    const TargetInfo& info = target->info;
    if (info.pid == pid && info.program.start_time_ticks == start_time_ticks &&
        !is_active(info.state) && info.state != TargetState::kExited) {
      return absl::AlreadyExistsError(absl::StrCat("pid ", pid, " is known: ", info.message));
    }
  }
  return daemon.attach({.pid = pid, .start_time_ticks = start_time_ticks}).status();
}

// Without names nothing is attached to, so a search may take its time.
std::unique_ptr<ProgramWatch> watch_programs(Daemon& daemon, const Config& config) {
  return std::make_unique<ProgramWatch>(
      ProgramWatchOptions{.patterns = config.names,
                          .attach =
                              [&daemon](int pid, std::uint64_t start_time_ticks) {
                                return attach_named(daemon, pid, start_time_ticks);
                              },
                          .interval = config.names.empty() ? kSlowSearch : kSearch,
                          .book = daemon.discovery_book()});
}

bool keeps_snapshots(const Config& config) { return !config.heap_watch.files.directory.empty(); }

// Null if no snapshot can ever be due.
std::unique_ptr<HeapWatch> watch_heaps(Daemon& daemon, const Config& config,
                                       std::shared_ptr<RuleBook> rules) {
  const bool by_rules = !config.rules_file.empty() && keeps_snapshots(config);
  if (config.heap_watch.rules.empty() && !by_rules) return nullptr;
  HeapWatchOptions options = config.heap_watch;
  options.book = std::move(rules);
  options.count = [outcomes = daemon.heap_outcomes()](const absl::Status& outcome) {
    outcomes->count(outcome);
  };
  options.points = [&daemon](int pid) { return daemon.heap_points(pid); };
  return std::make_unique<HeapWatch>(daemon, std::move(options));
}

const char* name_of(Signal signal) {
  switch (signal) {
    case Signal::kInterrupt:
      return "SIGINT";
    case Signal::kTerminate:
      return "SIGTERM";
    case Signal::kReload:
      return "SIGHUP";
    case Signal::kTerminalClosed:
      return "the terminal was closed";
  }
  std::abort();
}

// Files that SIGHUP reloads.
struct Reloaded {
  HttpServer& http;
  RuleWatch* rules;  // null: there are no rules
};

void reload(const Reloaded& files) {
  const absl::Status status = files.http.reload();
  if (status.ok()) {
    log_info("SIGHUP: reloading the web configuration and certificates");
  } else {
    log_error("SIGHUP: {}; keeping the previous configuration", std::string(status.message()));
  }
  if (files.rules == nullptr) return;
  const absl::Status rules = files.rules->reload();
  if (rules.ok()) {
    log_info("SIGHUP: reloading the rules");
  } else {
    log_error("SIGHUP: {}; keeping the previous rules", std::string(rules.message()));
  }
}

// Returns true if a signal ends memprofd; handles the others.
bool asked_to_end(const Signals& signals, milliseconds time, const Reloaded& files) {
  const auto signal = signals.wait(time);
  if (signal == Signal::kReload) reload(files);
  if (!signal || signal == Signal::kReload) return false;
  log_info("{}: detaching", name_of(*signal));
  return true;
}

// Runs the attaches of the command line on the other thread until a signal comes. Returns the
// result if they have ended.
std::optional<absl::Status> attach_until_signal(Daemon& daemon, const Config& config,
                                                const Signals& signals, const Reloaded& files,
                                                SpareThread& spare) {
  absl::Status status;
  const std::future<void> attaching = spare.run([&] { status = attach_all(daemon, config); });
  while (attaching.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (!asked_to_end(signals, kPoll, files)) continue;
    daemon.cancel_requests();
    attaching.wait();
    return std::nullopt;
  }
  return status;
}

// True if a signal has come that ends memprofd at once; signals right after the first one count as
// the same.
bool asked_again(const Signals& signals, std::chrono::steady_clock::time_point asked_at) {
  const auto signal = signals.wait(milliseconds(0));
  if (signal != Signal::kInterrupt && signal != Signal::kTerminate) return false;
  if (std::chrono::steady_clock::now() - asked_at < kOneRequest) return false;
  log_info("{} again: ending at once", name_of(*signal));
  return true;
}

// Returns true if the work, on the other thread, ends in time and before another signal. If not, it
// continues to use its references: only _exit() may follow.
bool ends_in_time(SpareThread& spare, std::function<void()> work, milliseconds patience,
                  const Signals& signals, std::chrono::steady_clock::time_point asked_at) {
  const std::future<void> over = spare.run(std::move(work));
  const auto until = std::chrono::steady_clock::now() + patience;
  while (over.wait_for(kPoll) != std::future_status::ready) {
    if (std::chrono::steady_clock::now() >= until) return false;
    if (asked_again(signals, asked_at)) return false;
  }
  return true;
}

[[noreturn]] void leave_at_once(ExitCode code) {
  end_log();
  std::fflush(stdout);
  _exit(static_cast<int>(code));
}

// For std::set_terminate(): logs an exception that was thrown outside of all guards (util/guard.h).
[[noreturn]] void log_what_ends_it() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    log_error(
        "memprofd cannot continue: {}; raise its limits of memory and threads (MemoryMax=, "
        "TasksMax=), or report this",
        error.what());
    leave_at_once(ExitCode::kInternal);
  }
  std::abort();
}

DaemonOptions daemon_options(const Config& config) {
  DaemonOptions options;
  options.cmt = config.heap_cmt;
  options.attach.agent_path = config.agent_path.empty() ? default_agent_path() : config.agent_path;
  options.attach.no_inject = config.no_inject;
  options.attach.follow_forks = config.follow_forks;
  options.attach.native_heap_interval = config.native_heap_interval;
  options.attach.native_heap_max_hits = config.native_heap_max_hits;
  options.mode = config.mode;
  options.attach.capture = config.capture;
  options.attach.max_frames = config.max_frames;
  options.attach.ring_bytes = config.ring_bytes;
  options.sampling_rate = config.sampling_rate;
  options.max_overhead = config.max_overhead;
  options.cpu_max = config.cpu_max;
  options.history_bytes = config.history_bytes;
  options.retention = std::chrono::seconds(static_cast<std::int64_t>(config.retention_seconds));
  return options;
}

ServerFacts facts_of(const Config& config) {
  ServerFacts facts;
  facts.kernel_capture = kernel_can_walk();
  facts.sampling_rate = config.sampling_rate;
  facts.max_overhead = config.max_overhead;
  facts.mode = config.mode;
  facts.http_control = config.web_enable_control;
  facts.traces = !config.trace_directory.empty();
  for (const int pid : config.pids) facts.rules.push_back(absl::StrCat("--pid ", pid));
  for (const std::string& name : config.names) facts.rules.push_back(absl::StrCat("--name ", name));
  facts.state_directory = config.state_directory;
  facts.max_streams = StreamSlots::kSlots;
  facts.max_connection_calls = GrpcServer::kMaxCalls;
  return facts;
}

// Services of the servers.
struct Services {
  Services(Daemon& daemon, const Config& config)
      : daemon(daemon),
        heaps(std::make_shared<HeapAnalyser>(config.heap_watch.files, config.heap_cmt)),
        exporter(
            daemon, program_version(), config.top_sites, stats, process_stats,
            daemon.heap_outcomes(), heaps->censuses(), [&daemon] { return daemon.publications(); },
            rules),
        queries(daemon, answers, [&daemon] { return daemon.discovered(); }),
        control(daemon),
        values(daemon),
        taken_heaps(*heaps, control, queries),
        kept_heaps(*heaps, daemon),
        census(*heaps),
        facts(facts_of(config)),
        traces(daemon, {.directory = config.trace_directory, .max_bytes = config.trace_max_bytes}) {
  }

  HttpRoutes routes(bool control_allowed) {
    HttpRoutes routes = make_routes(exporter, {.ready = [this] { return ready.load(); },
                                               .healthy = [this] { return healthy(); }});
    add_api_routes(queries, traces, stopping, routes);
    add_control_routes({control, taken_heaps, kept_heaps, values, daemon, stopping},
                       control_allowed, routes);
    add_web_page(facts, routes);
    return routes;
  }
  bool healthy() { return daemon.self_stats().control_silent_seconds < kSilentTooLongSeconds; }
  // Ends streams and traces soon.
  void stop() {
    ready = false;
    stopping.stop();
    census.stop();
    traces.stop();
  }

  Daemon& daemon;
  const std::shared_ptr<ServerStats> stats = std::make_shared<ServerStats>();
  const std::shared_ptr<AnswerPages> answers = std::make_shared<AnswerPages>();
  const std::shared_ptr<HeapAnalyser> heaps;
  const std::shared_ptr<RuleBook> rules = std::make_shared<RuleBook>();
  const PrometheusExporter exporter;
  QueryService queries;
  ControlService control;
  ValuesService values;
  HeapService taken_heaps;
  KeptHeaps kept_heaps;
  CensusThread census;
  const ServerFacts facts;
  TraceService traces;
  StopSignal stopping;
  std::atomic<bool> ready = false;
};

absl::Status make_directories(const Config& config) {
  absl::Status status = GuardedTypes(config.heap_cmt).check();
  if (status.ok() && !config.trace_directory.empty()) {
    status = make_trace_directory(config.trace_directory);
  }
  if (status.ok() && !config.heap_watch.files.directory.empty()) {
    const HeapFiles files(config.heap_watch.files);
    status = files.make_directory();
    if (status.ok()) files.remove_left_parts();
  }
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

// Null if no state is kept.
absl::StatusOr<std::unique_ptr<StateStore>> open_state(const Config& config) {
  if (config.state_directory.empty()) return nullptr;
  return StateStore::open(
      {.directory = config.state_directory, .max_bytes = config.state_max_bytes});
}

void log_ready(const std::string& url, const Config& config) {
  // memprofctl finds the default socket itself.
  const std::string socket =
      config.grpc_socket == default_grpc_socket() ? "" : " --grpc.socket " + config.grpc_socket;
  std::printf("page at %s, metrics at %s/metrics; in the terminal: memprofctl top%s\n", url.c_str(),
              url.c_str(), socket.c_str());
  std::fflush(stdout);
}

// All parts that run. At the end programs come first: memprofd detaches from them whatever its
// clients do.
struct Running {
  std::unique_ptr<Daemon> daemon;
  std::unique_ptr<ProgramWatch> watch;
  std::unique_ptr<HeapWatch> heap_watch;
  std::unique_ptr<Services> services;
  std::unique_ptr<RuleWatch> rules;  // null: there are no rules
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;

  Reloaded reloaded() const { return {*http, rules.get()}; }
  void end(const Signals& signals, SpareThread& spare) {
    const auto asked_at = std::chrono::steady_clock::now();
    daemon->cancel_requests();  // before the servers wait for those requests
    services->stop();
    const auto detach_all = [this] {
      watch.reset();
      heap_watch.reset();
      rules.reset();
      daemon->stop();
    };
    if (!ends_in_time(spare, detach_all, kDetachPatience, signals, asked_at)) {
      log_error("ending before all programs are detached; agents stop by themselves within 15 s");
      leave_at_once(ExitCode::kInternal);
    }
    const auto end_servers = [this] {
      grpc.reset();
      http.reset();
      services.reset();  // waits for traces that are being written
    };
    if (!ends_in_time(spare, end_servers, kServersPatience, signals, asked_at)) {
      log_warning("ending without waiting for a client that does not read its answer");
      leave_at_once(ExitCode::kOk);
    }
  }
};

absl::Status start_servers(Running& running, const Config& config) {
  Services& services = *running.services;
  if (!config.rules_file.empty()) {
    ASSIGN_OR_RETURN(running.rules, RuleWatch::open(*running.daemon,
                                                    {.file = config.rules_file,
                                                     .takes_snapshots = keeps_snapshots(config)},
                                                    services.rules));
  }
  ASSIGN_OR_RETURN(running.http, HttpServer::start({.listen_address = config.web_listen_address,
                                                    .web_config_file = config.web_config_file,
                                                    .controls = config.web_enable_control,
                                                    .host_names = config.web_host_names,
                                                    .controllers = config.web_controllers,
                                                    .stats = services.stats},
                                                   services.routes(config.web_enable_control)));
  ASSIGN_OR_RETURN(running.grpc, GrpcServer::start({.socket_path = config.grpc_socket,
                                                    .listen_address = config.grpc_listen_address,
                                                    .tls = config.grpc_tls,
                                                    .access = config.grpc_access,
                                                    .stats = services.stats,
                                                    .answers = services.answers,
                                                    .facts = services.facts,
                                                    .heaps = services.heaps},
                                                   *running.daemon, services.traces));
  return absl::OkStatus();
}

// The start in one line of the log: version, rules, directories. The listeners log themselves.
void log_start(const Config& config) {
  std::vector<std::string> facts;
  if (!config.pids.empty())
    facts.push_back(absl::StrCat("pids ", absl::StrJoin(config.pids, ", ")));
  for (const std::string& name : config.names) facts.push_back(absl::StrCat("name ", name));
  const auto add_directory = [&facts](const char* what, const std::string& directory) {
    if (!directory.empty()) facts.push_back(absl::StrCat(what, " ", directory));
  };
  add_directory("state", config.state_directory);
  add_directory("snapshots", config.heap_watch.files.directory);
  add_directory("traces", config.trace_directory);
  add_directory("rules", config.rules_file);
  facts.push_back(absl::StrCat("gRPC ", config.grpc_socket));
  if (!config.grpc_listen_address.empty()) facts.push_back(config.grpc_listen_address);
  facts.push_back(absl::StrCat("HTTP ", config.web_listen_address));
  log_info("memprofd {} starts: {}", version_text(program_version()),
           printable(absl::StrJoin(facts, "; ")));
}

// Contains all work that may wait for a file, a name or another process. config: adapted to this
// machine afterwards.
absl::Status start(Running& running, Config& config) {
  ASSIGN_OR_RETURN(config, fit_to_machine(config));
  RETURN_IF_ERROR(make_directories(config));
  ASSIGN_OR_RETURN(const std::uint64_t memory, target_memory(config));
  ByteBudget::of_process()->set_limit(memory);
  ASSIGN_OR_RETURN(auto state, open_state(config));
  running.daemon = std::make_unique<Daemon>(daemon_options(config), std::move(state));
  running.services = std::make_unique<Services>(*running.daemon, config);
  return start_servers(running, config);
}

// Runs start() on the other thread. Returns its status, or nothing if a signal ends memprofd; a
// start that is still running is then abandoned.
std::optional<absl::Status> start_until_signal(Running& running, Config& config,
                                               const Signals& signals, SpareThread& spare) {
  absl::Status status;
  std::future<void> starting = spare.run([&] { status = start(running, config); });
  std::optional<Signal> came;
  bool is_to_reload = false;
  while (!came && starting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    came = signals.wait(kPoll);
    if (came != Signal::kReload) continue;
    is_to_reload = true;
    came.reset();
  }
  if (came) {
    log_info("{}: ending before all is started", name_of(*came));
    if (starting.wait_for(kStartPatience) != std::future_status::ready) {
      leave_at_once(ExitCode::kOk);
    }
  }
  starting.get();
  if (is_to_reload && status.ok()) reload(running.reloaded());
  if (came && status.ok()) return std::nullopt;
  return status;
}

int run(const Config& asked) {
  start_memory_fork_server();  // while this process is small
  gpr_set_log_function(
      [](gpr_log_func_args* entry) { log_debug("gRPC: {}", std::string(entry->message)); });
  have_few_arenas();
  raise_descriptor_limit();
  const Signals signals;
  if (auto status = check_free_threads(kThreads, "at the start"); !status.ok()) return fail(status);
  SpareThread spare;
  Config config = asked;
  Running running;
  const auto started = start_until_signal(running, config, signals, spare);
  if (started && !started->ok()) return fail(*started);
  if (started) log_start(config);
  const auto attached =
      started ? attach_until_signal(*running.daemon, config, signals, running.reloaded(), spare)
              : std::nullopt;
  if (attached && attached->ok()) {
    running.services->ready = true;
    running.watch = watch_programs(*running.daemon, config);
    running.heap_watch = watch_heaps(*running.daemon, config, running.services->rules);
    log_ready(running.http->url(), config);
    while (!asked_to_end(signals, std::chrono::hours(1), running.reloaded())) {
    }
  }
  running.end(signals, spare);
  return static_cast<int>(attached && !attached->ok() ? exit_code_of(*attached) : ExitCode::kOk);
}

}  // namespace
}  // namespace memprofd

// Exceptions here, such as no memory or thread at the start, end the program at once, with a
// message.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  const memprofd::ParsedConfig parsed = memprofd::parse_config(argc, argv);
  if (!parsed.run) return parsed.exit_code;
  memprofd::set_up_log(parsed.config.log_level, parsed.config.log_format);
  std::set_terminate(memprofd::log_what_ends_it);
  const int code = memprofd::run(parsed.config);
  // An inspection that hangs in a file system may never end, so nothing waits for it.
  if (memprofd::InspectionThreads::wait_for_all(memprofd::kLastInspectionPatience)) return code;
  memprofd::leave_at_once(static_cast<memprofd::ExitCode>(code));
}
