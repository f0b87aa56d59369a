// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/one_of.h"
#include "daemon/util/paths.h"
#include "daemon/util/units.h"
#include "daemon/util/version.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMinRingBytes = 256u << 10, kMaxRingBytes = 1u << 30;
constexpr std::uint64_t kMinStateBytes = 64u << 10;
constexpr std::uint64_t kMinMemoryBytes = 128u << 20;
constexpr std::uint64_t kMinHistoryBytes = 64u << 10, kMaxHistoryBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxTraceBytes = std::uint64_t{1} << 50;

// An option whose text a parser turns into a number; the parser's message is the
// error. (CLI11's contract: an empty string is success.)
CLI::Option* add_parsed(CLI::App& app, const std::string& name,
                        absl::StatusOr<double> (*parse)(std::string_view), double& out,
                        const std::string& help) {
  const auto check = [parse](const std::string& text) {
    return std::string(parse(text).status().message());
  };
  return app
      .add_option_function<std::string>(
          name, [parse, &out](const std::string& text) { out = *parse(text); }, help)
      ->check(CLI::Validator(check, ""));
}

// "512KiB", from..to bytes.
template <typename Number>
CLI::Option* add_size(CLI::App& app, const std::string& name, Number& out, std::uint64_t from,
                      std::uint64_t to, const std::string& help) {
  const auto check = [from, to](const std::string& text) {
    const absl::StatusOr<std::uint64_t> size = parse_size(text);
    if (!size.ok()) return std::string(size.status().message());
    if (*size >= from && *size <= to) return std::string();
    return absl::StrCat("\"", text, "\" is not between ", format_bytes(static_cast<double>(from)),
                        " and ", format_bytes(static_cast<double>(to)));
  };
  return app
      .add_option_function<std::string>(
          name, [&out](const std::string& text) { out = static_cast<Number>(*parse_size(text)); },
          help)
      ->check(CLI::Validator(check, ""))
      ->type_name("SIZE");
}

std::string check_pid_text(const std::string& text) {
  int pid = 0;
  if (absl::SimpleAtoi(text, &pid) && pid > 0) return "";
  return absl::StrCat("\"", text, "\" is no pid: write a number above 0");
}

void add_target_options(CLI::App& app, Config& config) {
  app.add_option("--pid", config.pids, "Profile this program; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(check_pid_text, ""))
      ->type_name("PID");
  app.add_option("--name", config.names,
                 "Profile programs whose file has this name, such as 'shop-*', or whose path if it "
                 "has a slash: what runs, and what starts later; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("GLOB");
  auto* rate = add_parsed(app, "--sampling-rate", parse_rate, config.sampling_rate,
                          "Take so many samples per allocated word (default: 1e-5)")
                   ->type_name("RATE");
  add_parsed(app, "--sampling-interval", parse_sampling_interval, config.sampling_rate,
             "Take a sample per so many bytes instead, such as 512KiB")
      ->type_name("SIZE")
      ->excludes(rate);
  add_parsed(app, "--max-overhead", parse_budget, config.max_overhead,
             "Lower the sampling rate as far as needed for profiling to take at most so much of a "
             "program's CPU, such as 0.5%, or none for no limit (default: 1%)")
      ->type_name("PERCENT");
  app.add_flag("--no-inject", config.no_inject, "Use only an agent that is in the program already");
  app.add_flag("--follow-forks", config.follow_forks,
               "Profile also the children that programs fork (default: they are left alone)");
  app.add_flag_callback(
      "--c-heap",
      [&config] {
        if (config.c_heap_interval == 0) config.c_heap_interval = kUsualCHeapInterval;
      },
      "Follow also what C code takes by malloc, shown as heap=c (off by default)");
  add_size(app, "--c-heap-interval", config.c_heap_interval, kMinCHeapInterval, kMaxCHeapInterval,
           "Follow it with a sample per so many bytes (default: 512KiB)");
  app.add_option("--c-heap-max-hits", config.c_heap_max_hits,
                 "Follow it where no agent can be only while its calls, each 1 us or 10, cost at "
                 "most so many us a second")
      ->check(CLI::Range(std::uint64_t{1}, kMaxCHeapMaxHits))
      ->capture_default_str()
      ->type_name("N");
  app.add_option(
         "--mode", config.mode,
         "Choose auto: with the agent, or observed where that is impossible; agent; observe: "
         "nothing enters the program, allocations only")
      ->transform(one_of<AttachMode>({{"auto", AttachMode::kAuto},
                                      {"agent", AttachMode::kAgent},
                                      {"observe", AttachMode::kObserve}}))
      ->default_str("auto")
      ->type_name("MODE");
  app.add_option(
         "--capture", config.capture,
         "Choose who records callstacks. kernel: a probe at each sample; runtime: the "
         "program's own runtime, cheaper for many samples; agent: its own walk of the "
         "stack, cheaper still where stacks are deep, writes to the runtime's variables; auto: "
         "kernel or runtime by the rate")
      ->transform(one_of<CaptureMode>({{"auto", CaptureMode::kAuto},
                                       {"kernel", CaptureMode::kKernel},
                                       {"runtime", CaptureMode::kRuntime},
                                       {"agent", CaptureMode::kAgent}}))
      ->default_str("auto")
      ->type_name("WHO");
  app.add_option("--agent", config.agent_path, "Inject this agent library")->type_name("FILE");
  app.add_option("--max-frames", config.max_frames, "Keep so many frames of a callstack")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str()
      ->type_name("N");
  add_size(
      app, "--ring-bytes", config.ring_bytes, kMinRingBytes, kMaxRingBytes,
      "Give each target a ring buffer of this size (default: 1MiB, above a rate of 1e-4 4MiB)");
}

void add_grpc_access_options(CLI::App& app, Config& config) {
  app.add_flag("--grpc.group-controls", config.grpc_access.group_controls,
               "Let everybody who may open the socket control programs of all users (default: "
               "root those, others their own)");
  app.add_option("--grpc.tls.cert-file", config.grpc_tls.cert_file,
                 "Show this certificate on TCP; read anew when it changes")
      ->type_name("FILE");
  app.add_option("--grpc.tls.key-file", config.grpc_tls.key_file, "Use its key")->type_name("FILE");
  app.add_option("--grpc.tls.client-ca-file", config.grpc_tls.client_ca_file,
                 "Take clients on TCP whose certificate one of these authorities has signed; "
                 "needed where other machines reach the address")
      ->type_name("FILE");
  app.add_option("--grpc.controllers", config.grpc_access.controllers,
                 "Let clients on TCP control programs whose certificate is for this name; may be "
                 "given several times (default: nobody)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
}

std::string check_heap_rule(const std::string& text) {
  return std::string(parse_heap_rule(text).status().message());
}

void add_heap_watch_options(CLI::App& app, Config& config) {
  HeapWatchOptions& watch = config.heap_watch;
  auto* directory =
      app.add_option("--snapshot.directory", watch.files.directory,
                     "Keep snapshots of heaps in this directory, which --snapshot.when "
                     "or clients have taken (off by default)")
          ->type_name("DIR");
  app.add_option_function<std::vector<std::string>>(
         "--snapshot.when",
         [&watch](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) watch.rules.push_back(*parse_heap_rule(text));
         },
         "Take one of each program when its live memory comes above live>2GiB or has grown by "
         "live+500MiB, after majors=100 major collections, daily at=03:00, at a point in its code "
         "(Memprof_agent.snapshot), at its end; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(check_heap_rule, ""))
      ->needs(directory)
      ->type_name("CONDITION");
  add_parsed(app, "--snapshot.interval", parse_duration, watch.rest_seconds,
             "Let so much time pass from one to the next of a program")
      ->default_str("1m")
      ->type_name("DURATION");
  app.add_option("--snapshot.keep", watch.files.keep, "Keep so many in the directory")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str()
      ->type_name("N");
  add_size(app, "--snapshot.max-bytes", watch.files.max_bytes, kMinStateBytes, kMaxTraceBytes,
           "Let all there take at most so much; none is taken beyond")
      ->default_str("10GiB");
  add_parsed(app, "--snapshot.max-pause", parse_duration, watch.max_pause_seconds,
             "Take none for which a program would be stopped for longer")
      ->default_str("50ms")
      ->type_name("DURATION");
  app.add_option(
         "--snapshot.cmt", config.heap_cmt,
         "Look for types of programs' sources in this .cmt or .cmi file, or folder with all "
         "below it, before the places where dune, opam and Debian have them; may be given "
         "several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATH");
}

void add_output_options(CLI::App& app, Config& config) {
  app.add_option("--web.listen-address", config.web_listen_address,
                 "Serve the page and /metrics here")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option(
         "--web.config.file", config.web_config_file,
         "Read TLS, certificates of clients and basic authentication from this file, in the "
         "form of Prometheus exporters")
      ->type_name("FILE");
  app.add_flag("--web.enable-control", config.web_enable_control,
               "Let the page attach, detach and set rates (off by default)");
  app.add_option(
         "--web.controllers", config.web_controllers,
         "Let only users of this name, and certificates for it, do so; may be given several "
         "times (default: all who may ask)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  app.add_option(
         "--web.host-name", config.web_host_names,
         "Serve what may be asked without a password under this name too; may be given several "
         "times (default: addresses and localhost)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  app.add_option("--grpc.socket", config.grpc_socket, "Serve gRPC on this Unix socket")
      ->capture_default_str()
      ->type_name("PATH");
  app.add_option("--grpc.listen-address", config.grpc_listen_address,
                 "Serve gRPC on TCP too, for questions (off by default)")
      ->type_name("HOST:PORT");
  add_grpc_access_options(app, config);
  app.add_option("--top-sites", config.top_sites.each,
                 "Give so many sites of a program Prometheus series of their own")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str()
      ->type_name("K");
  app.add_option("--top-sites.total", config.top_sites.total,
                 "Give so many sites of all programs together series of their own; a program that "
                 "comes later has to do with what is left")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
  add_size(app, "--history.memory", config.history_bytes, kMinHistoryBytes, kMaxHistoryBytes,
           "Keep at most so much of what happened when, of all targets together")
      ->default_str("128MiB");
  add_size(app, "--memory.max", config.memory_max, kMinMemoryBytes, kMaxHistoryBytes,
           "Take at most so much memory in all, shared by need; a target for which none is left is "
           "followed less closely")
      ->default_str("1.5GiB");
  add_parsed(
      app, "--cpu.max", parse_budget, config.cpu_max,
      "Take at most so much of one processor, such as 20%, or none for no limit: the sampling "
      "rates of the dearest targets are lowered as far as needed (default: 50%)")
      ->type_name("PERCENT");
  add_parsed(app, "--history.retention", parse_duration, config.retention_seconds,
             "Keep the counts of a target that has ended for so long, such as 90s, 5m or 2h")
      ->default_str("1h")
      ->type_name("DURATION");
  app.add_option("--state.directory", config.state_directory,
                 "Keep targets and their history here, so that the next memprofd goes on with them "
                 "(off by default)")
      ->type_name("DIR");
  add_size(app, "--state.max-bytes", config.state_max_bytes, kMinStateBytes, kMaxHistoryBytes,
           "Let its files take at most so much")
      ->default_str("1GiB");
  app.add_option("--trace.directory", config.trace_directory,
                 "Let gRPC clients have traces written here (off by default)")
      ->type_name("DIR");
  add_size(app, "--trace.max-bytes", config.trace_max_bytes, kMinStateBytes, kMaxTraceBytes,
           "Let all traces there take at most so much; one that reaches it ends")
      ->default_str("10GiB");
  add_heap_watch_options(app, config);
  app.add_option("--log.level", config.log_level,
                 "Log from this level on: debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log.format", config.log_format, "Write the log as logfmt or json")
      ->check(CLI::IsMember({"logfmt", "json"}))
      ->capture_default_str();
}

// What this process takes by itself: code, threads, requests that are answered.
constexpr std::uint64_t kOwnBytes = 64u << 20;
// With a usual history and what memprofd takes by itself 1.5 GiB.
constexpr std::uint64_t kUsualTargetBytes = 1344u << 20;

}  // namespace

absl::StatusOr<std::uint64_t> target_memory(const Config& config) {
  if (config.memory_max == 0) return kUsualTargetBytes;
  if (config.memory_max >= 2 * config.history_bytes) {
    return config.memory_max - std::min(config.memory_max, config.history_bytes + kOwnBytes);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--history.memory is more than half of --memory.max: give that at least ",
                   format_bytes(2.0 * static_cast<double>(config.history_bytes))));
}

ParsedConfig parse_config(int argc, char** argv) {
  ParsedConfig parsed;
  parsed.config.grpc_socket = default_grpc_socket();
  CLI::App app{
      "memprofd: profiles the memory of running OCaml programs from outside.\n\n"
      "  memprofd --pid PID      attach to a running program and serve until stopped\n"
      "  memprofd --name GLOB    the same with every program of that name, as they start\n"
      "  memprofctl top          look at it in the terminal",
      "memprofd"};
  // What stands later counts: options that a service adds come after those of its unit.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", "memprofd " + version_text(program_version()));
  add_target_options(app, parsed.config);
  add_output_options(app, parsed.config);
  app.footer(std::string("\n") + kExitCodeHelp);
  try {
    app.parse(argc, argv);
    parsed.run = true;
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    parsed.exit_code = code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  return parsed;
}

}  // namespace memprofd
