// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/one_of.h"
#include "daemon/util/paths.h"
#include "daemon/util/units.h"
#include "daemon/util/usage.h"
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
  return absl::StrCat("\"", text, "\" is not a pid: write a number above 0");
}

// Detects globs that cannot match what their author means: an empty one, and one with an unclosed
// bracket, which fnmatch() takes for the character itself.
std::string check_glob(const std::string& text) {
  if (text.empty()) return "an empty name matches nothing; give the executable's name, or '*'";
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\') {
      if (++at == text.size()) return absl::StrCat("\"", text, "\" ends with a backslash");
    } else if (text[at] == '[') {
      // A closing bracket in first place belongs to the set.
      const std::size_t first = at + 1 + (text.find_first_of("!^", at + 1) == at + 1 ? 1 : 0);
      at = text.find(']', first + 1);
      if (at == text.npos) {
        return absl::StrCat("\"", text, "\" has a [ without its ]; write \\[ for the character");
      }
    }
  }
  return "";
}

void add_target_options(CLI::App& app, Config& config) {
  app.add_option("--pid", config.pids, "Profile the process with this PID; repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(check_pid_text, ""))
      ->type_name("PID");
  app.add_option("--name", config.names,
                 "Profile every process whose executable has this name, such as 'shop-*' (its "
                 "path, if GLOB contains a slash), now or later; repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(check_glob, ""))
      ->type_name("GLOB");
  auto* rate =
      add_parsed(app, "--sampling-rate", parse_rate, config.sampling_rate,
                 "Samples per allocated word; --max-overhead lowers it when needed (default: 1e-4)")
          ->type_name("RATE");
  add_parsed(app, "--sampling-interval", parse_sampling_interval, config.sampling_rate,
             "Take one sample per SIZE allocated bytes instead, such as 512KiB")
      ->type_name("SIZE")
      ->excludes(rate);
  add_parsed(app, "--max-overhead", parse_budget, config.max_overhead,
             "Cap profiling at this share of a target's own CPU time by lowering its sampling "
             "rate; 'none' for no cap (default: 1%)")
      ->type_name("PERCENT");
  app.add_flag("--no-inject", config.no_inject,
               "Use only an agent that the target has loaded itself; inject nothing");
  app.add_flag("--follow-forks", config.follow_forks,
               "Also profile the children that targets fork (default: children are not profiled)");
  app.add_flag_callback(
      "--c-heap",
      [&config] {
        if (config.native_heap_interval == 0)
          config.native_heap_interval = kUsualNativeHeapInterval;
      },
      "Also sample the native heap (malloc), shown as heap=c (default: off)");
  add_size(app, "--c-heap-interval", config.native_heap_interval, kMinNativeHeapInterval,
           kMaxNativeHeapInterval,
           "Sample the native heap once per SIZE allocated bytes (default: 512KiB)");
  app.add_option("--c-heap-max-hits", config.native_heap_max_hits,
                 "Stop following malloc in observe mode when its probes cost more than N us of CPU "
                 "per second")
      ->check(in_range(std::uint64_t{1}, kMaxNativeHeapMaxHits))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--mode", config.mode,
                 "How to attach. agent: inject the agent; observe: inject nothing, show "
                 "allocations only; auto: agent, or observe where no agent can be injected")
      ->transform(one_of<AttachMode>({{"auto", AttachMode::kAuto},
                                      {"agent", AttachMode::kAgent},
                                      {"observe", AttachMode::kObserve}}))
      ->default_str("auto")
      ->type_name("MODE");
  app.add_option("--capture", config.capture,
                 "How callstacks are captured. kernel: a probe at each sample; runtime: by the "
                 "OCaml runtime, cheaper for many samples; agent: by the agent's own stack walk, "
                 "cheapest for deep stacks, writes to the runtime's variables; auto: runtime, or "
                 "kernel where its samples cost the target less")
      ->transform(one_of<CaptureMode>({{"auto", CaptureMode::kAuto},
                                       {"kernel", CaptureMode::kKernel},
                                       {"runtime", CaptureMode::kRuntime},
                                       {"agent", CaptureMode::kAgent}}))
      ->default_str("auto")
      ->type_name("MODE");
  app.add_option("--agent", config.agent_path,
                 "Inject this agent library (default: the one installed with memprofd)")
      ->type_name("FILE");
  app.add_option("--max-frames", config.max_frames, "Keep at most N frames of a callstack")
      ->check(in_range(1u, 1u << 20))
      ->capture_default_str()
      ->type_name("N");
  add_size(app, "--ring-bytes", config.ring_bytes, kMinRingBytes, kMaxRingBytes,
           "Size of each target's ring buffer (default: derived from rate and budget; 512KiB with "
           "default settings)");
}

void add_grpc_access_options(CLI::App& app, Config& config) {
  app.add_flag("--grpc.group-controls", config.grpc_access.group_controls,
               "Let every user who can open the socket control targets of all users (default: "
               "users control their own, root controls all)");
  app.add_option("--grpc.tls.cert-file", config.grpc_tls.cert_file,
                 "Certificate for gRPC over TCP; reloaded when it changes")
      ->type_name("FILE");
  app.add_option("--grpc.tls.key-file", config.grpc_tls.key_file,
                 "Private key of --grpc.tls.cert-file")
      ->type_name("FILE");
  app.add_option("--grpc.tls.client-ca-file", config.grpc_tls.client_ca_file,
                 "Accept TCP clients whose certificate one of these authorities signed; required "
                 "for addresses that other machines can reach")
      ->type_name("FILE");
  app.add_option("--grpc.controllers", config.grpc_access.controllers,
                 "Let TCP clients whose certificate has this name control targets; repeatable "
                 "(default: none)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
}

std::string check_heap_rule(const std::string& text) {
  return std::string(parse_heap_rule(text).status().message());
}

void add_heap_watch_options(CLI::App& app, Config& config) {
  HeapWatchOptions& watch = config.heap_watch;
  auto* directory = app.add_option("--snapshot.directory", watch.files.directory,
                                   "Keep heap snapshots taken by --snapshot.when or by clients in "
                                   "this directory (default: off)")
                        ->type_name("DIR");
  app.add_option_function<std::vector<std::string>>(
         "--snapshot.when",
         [&watch](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) watch.rules.push_back(*parse_heap_rule(text));
         },
         "Take a snapshot of each target when live memory exceeds 2 GiB (live>2GiB) or has grown "
         "by 500 MiB (live+500MiB), after major collections (majors=100), daily (at=03:00), at a "
         "point in its code (point), or at its end (end); repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(check_heap_rule, ""))
      ->needs(directory)
      ->type_name("CONDITION");
  add_parsed(app, "--snapshot.interval", parse_duration, watch.rest_seconds,
             "Minimum time between two snapshots of one target")
      ->default_str("1m")
      ->type_name("DURATION");
  app.add_option("--snapshot.keep", watch.files.keep,
                 "Keep at most N snapshots; delete the oldest of the program with the most first")
      ->check(in_range(1, 100000))
      ->capture_default_str()
      ->type_name("N");
  add_size(
      app, "--snapshot.max-bytes", watch.files.max_bytes, kMinStateBytes, kMaxTraceBytes,
      "Size limit of the directory; a new snapshot replaces old ones of the program with the most "
      "bytes")
      ->default_str("10GiB");
  add_parsed(app, "--snapshot.max-pause", parse_duration, watch.max_pause_seconds,
             "Take no snapshot that would pause the target for longer")
      ->default_str("50ms")
      ->type_name("DURATION");
  app.add_option("--snapshot.cmt", config.heap_cmt,
                 "Look for source types in this .cmt or .cmi file, or below this folder, before "
                 "the usual places of dune, opam and Debian; repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATH");
}

void add_output_options(CLI::App& app, Config& config) {
  app.add_option("--web.listen-address", config.web_listen_address,
                 "Serve the web page and /metrics on this address")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option(
         "--web.config.file", config.web_config_file,
         "Read TLS and authentication settings from this file (format of Prometheus exporters)")
      ->type_name("FILE");
  app.add_flag("--web.enable-control", config.web_enable_control,
               "Allow the web page to attach, detach and set rates (default: off)");
  app.add_option(
         "--web.controllers", config.web_controllers,
         "Allow control from the page only to users or certificates with this name; repeatable "
         "(default: every user of the page)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  app.add_option("--web.host-name", config.web_host_names,
                 "Also accept requests for this host name; others are refused (protects against "
                 "DNS rebinding); "
                 "repeatable (default: IP addresses and localhost)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  app.add_option("--grpc.socket", config.grpc_socket, "Serve gRPC on this Unix socket")
      ->capture_default_str()
      ->type_name("PATH");
  app.add_option(
         "--grpc.listen-address", config.grpc_listen_address,
         "Also serve gRPC on TCP, read-only unless --grpc.controllers is set (default: off)")
      ->type_name("HOST:PORT");
  add_grpc_access_options(app, config);
  app.add_option("--top-sites", config.top_sites.each,
                 "Export Prometheus series for the K largest sites of each target")
      ->check(in_range(1, 10000))
      ->capture_default_str()
      ->type_name("K");
  app.add_option("--top-sites.total", config.top_sites.total,
                 "Export series for at most N sites in all; later targets share the remainder")
      ->check(in_range(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option(
         "--metrics.max-series", config.top_sites.series,
         "Export at most N series; drop the least important series and the newest targets first")
      ->check(in_range(200, 10000000))
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--metrics.by-pid", config.top_sites.histograms_by_pid,
               "Export lifetime and pause histograms of each process (default: of each program)");
  add_size(app, "--history.memory", config.history_bytes, kMinHistoryBytes, kMaxHistoryBytes,
           "Memory for the history of all targets")
      ->default_str("128MiB");
  add_size(app, "--memory.max", config.memory_max, kMinMemoryBytes, kMaxHistoryBytes,
           "Memory limit of memprofd; targets that exceed their share are followed in less detail")
      ->default_str("1.5GiB");
  add_parsed(app, "--cpu.max", parse_budget, config.cpu_max,
             "Cap memprofd's own CPU use at this share of one processor by lowering the rates of "
             "the costliest targets; 'none' for no cap (default: 50%)")
      ->type_name("PERCENT");
  add_parsed(app, "--history.retention", parse_duration, config.retention_seconds,
             "How long to keep the counts of ended targets, such as 90s, 5m or 2h")
      ->default_str("1h")
      ->type_name("DURATION");
  app.add_option("--state.directory", config.state_directory,
                 "Store targets and their history here, so that memprofd continues after a restart "
                 "(default: off)")
      ->type_name("DIR");
  add_size(app, "--state.max-bytes", config.state_max_bytes, kMinStateBytes, kMaxHistoryBytes,
           "Size limit of --state.directory")
      ->default_str("1GiB");
  app.add_option("--trace.directory", config.trace_directory,
                 "Let gRPC clients write traces to this directory (default: off)")
      ->type_name("DIR");
  add_size(app, "--trace.max-bytes", config.trace_max_bytes, kMinStateBytes, kMaxTraceBytes,
           "Size limit of all traces there; a trace that reaches it ends")
      ->default_str("10GiB");
  add_heap_watch_options(app, config);
  app.add_option("--rules", config.rules_file,
                 "Check targets against the memory rules in this YAML file (SIGHUP reloads it); a "
                 "broken rule is logged, exported, and can trigger a snapshot")
      ->type_name("FILE");
  app.add_option("--log.level", config.log_level,
                 "Log messages of this level and above: debug, info, warn, error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log.format", config.log_format, "Log format: logfmt or json")
      ->check(CLI::IsMember({"logfmt", "json"}))
      ->capture_default_str();
}

// Memory of the process itself: code, threads, requests in progress.
constexpr std::uint64_t kOwnBytes = 64u << 20;
// With the default history and memprofd's own memory this gives 1.5 GiB.
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
      "memprofd: profiles the memory of running OCaml programs from outside.\n\n  memprofd --pid "
      "PID      profile a running process until stopped\n  memprofd --name GLOB    profile every "
      "process with that executable name, now or later\n  memprofctl top          watch the "
      "allocation sites in a terminal",
      "memprofd"};
  // The last occurrence wins, so that service options override those of the unit.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", "memprofd " + version_text(program_version()));
  add_target_options(app, parsed.config);
  add_output_options(app, parsed.config);
  app.footer(std::string("\n") + kExitCodeHelp);
  try {
    app.parse(argc, argv);
    parsed.run = true;
  } catch (const CLI::ExtrasError&) {
    std::fprintf(stderr, "memprofd: %s\n",
                 unexpected_argument_text(app.remaining(), "memprofd --help").c_str());
    parsed.exit_code = static_cast<int>(ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      parsed.exit_code = app.exit(error);
    } else {
      std::fprintf(stderr, "memprofd: %s\n", error.what());
      parsed.exit_code = static_cast<int>(ExitCode::kUsage);
    }
  }
  return parsed;
}

}  // namespace memprofd
