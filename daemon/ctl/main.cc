// SPDX-License-Identifier: Apache-2.0
// memprofctl: the command line client of memprofd.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/query_options.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/paths.h"
#include "daemon/util/usage.h"
#include "daemon/util/version.h"

namespace {

using memprofd::ExitCode;
using memprofd::ctl::CommandLine;
using memprofd::ctl::Options;
namespace ctl = memprofd::ctl;

// All commands on one screen of 24 lines. --help-all adds options and exit codes.
constexpr char kHelp[] =
    R"(memprofctl: queries and controls memprofd, the memory profiler for running OCaml programs
Usage: memprofctl [OPTIONS] COMMAND     (COMMAND --help explains a command and its options)

  run, check               Start a program and profile it to its end; check limits its heap, for CI
  attach, detach, rate     Start or stop profiling a running process; change its sampling rate
  targets, info, doctor    List targets and OCaml processes; show limits of memprofd; find problems

  top                      Watch allocation sites live
  leaks                    Report whether a process leaks memory, where, and since when
  report, sites, callers   Show allocation sites of a target or a trace file; export profiles
  history, diff            Show counts over time; compare time ranges, targets or trace files
  rss                      Break down the resident memory of a process

  why                      Show what keeps the blocks of an allocation site alive
  snapshot                 Take, list, compare and analyze heap snapshots
  values                   Show, watch and set values of a running program; call its actions
  trace, events            Record traces in Memtrace's format; print events as they happen
  trace-calls              Count and time calls of functions

  --address HOST:PORT      Connect to memprofd over TCP; --grpc.socket PATH: another Unix socket
  --help-all, --version    Print all options, commands and exit codes; print the version
)";

struct Entry {
  const char* name;
  void (*add)(const CommandLine& line, CLI::App& app);
};
// In the order of --help-all.
constexpr Entry kCommands[] = {
    {"run", &ctl::add_run},         {"check", &ctl::add_check},
    {"targets", &ctl::add_targets}, {"attach", &ctl::add_attach},
    {"detach", &ctl::add_detach},   {"rate", &ctl::add_rate},
    {"doctor", &ctl::add_doctor},   {"info", &ctl::add_info},
    {"rss", &ctl::add_rss},         {"sites", &ctl::add_sites},
    {"report", &ctl::add_report},   {"leaks", &ctl::add_leaks},
    {"diff", &ctl::add_diff},       {"callers", &ctl::add_callers},
    {"history", &ctl::add_history}, {"top", &ctl::add_top},
    {"events", &ctl::add_events},   {"trace", &ctl::add_trace},
    {"why", &ctl::add_why},         {"snapshot", &ctl::add_snapshot},
    {"values", &ctl::add_values},   {"trace-calls", &ctl::add_trace_calls},
};
// Commands that have moved below values and trace. No help lists them.
constexpr Entry kEarlierNames[] = {
    {"watch", &ctl::add_watch},   {"value-history", &ctl::add_value_history},
    {"adjust", &ctl::add_adjust}, {"ask", &ctl::add_ask},
    {"resume", &ctl::add_resume}, {"record", &ctl::add_record},
    {"dump", &ctl::add_dump},
};

// Messages of CLI11.
constexpr char kNoCommand[] = "A subcommand is required";
constexpr char kNoPid[] = "--pid is required";
constexpr char kBadPid[] = "Could not convert: --pid = ";

class Help : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const bool is_short = app->get_parent() == nullptr && mode == CLI::AppFormatMode::Normal;
    return is_short ? kHelp
                    : CLI::Formatter::make_help(app, std::move(name), CLI::AppFormatMode::Normal);
  }
};

class Program {
 public:
  Program() {
    app_.formatter(std::make_shared<Help>());
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.footer(memprofd::kExitCodeHelp);
    app_.set_version_flag("--version",
                          "memprofctl " + memprofd::version_text(memprofd::program_version()));
    options_.endpoint.socket = memprofd::find_grpc_socket();
    app_.add_option("--grpc.socket", options_.endpoint.socket,
                    "Connect to memprofd through this Unix socket")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)  // of an alias and of the day
        ->capture_default_str();
    app_.add_option("--address", options_.endpoint.address,
                    "Connect to memprofd over TCP at HOST:PORT instead, or at https://HOST:PORT "
                    "with TLS")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->envname(ctl::kAddressVariable);
    add_tls("--tls.ca", options_.endpoint.tls.ca_file, "MEMPROFD_TLS_CA",
            "PEM file of the authorities that may have signed memprofd's certificate "
            "(default: those of the system)");
    add_tls("--tls.cert", options_.endpoint.tls.cert_file, "MEMPROFD_TLS_CERT",
            "PEM file of the certificate that memprofctl presents");
    add_tls("--tls.key", options_.endpoint.tls.key_file, "MEMPROFD_TLS_KEY",
            "PEM file of the key of --tls.cert");
    options_.program_exit = &program_exit_;
    for (const Entry& entry : kCommands) entry.add(line_, *app_.add_subcommand(entry.name));
    for (const Entry& entry : kEarlierNames) {
      entry.add(line_, *app_.add_subcommand(entry.name)->group(""));
    }
    app_.set_help_all_flag("--help-all", "Print all options, commands and exit codes");
  }

  // The exit code.
  int run(int argc, char** argv) {
    try {  // CLI11 reports through exceptions
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // --help, --version
      std::fprintf(stderr, "memprofctl: %s\n", usage_message(error).c_str());
      return static_cast<int>(ExitCode::kUsage);
    }
    absl::Status status = ctl::check(options_.endpoint);
    if (status.ok()) status = run_();
    if (!status.ok()) {
      std::fprintf(
          stderr, "memprofctl: %s\n",
          ctl::with_endpoint({status.message().data(), status.message().size()}, options_.endpoint)
              .c_str());
    }
    if (program_exit_ >= 0) return program_exit_;
    return static_cast<int>(memprofd::exit_code_of(status));
  }

 private:
  std::string usage_message(const CLI::ParseError& error) {
    std::string path;
    const CLI::App* command = &app_;
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().back();
      path += command->get_name() + " ";
    }
    const std::string help = "memprofctl " + path + "--help";
    const std::string what = error.what();
    const std::vector<std::string> rest = app_.remaining(true);
    if (what == kNoCommand) {
      const std::string list = "; `" + help + "` lists all commands";
      if (rest.empty()) return "missing command" + list;
      if (rest[0].starts_with('-')) return memprofd::unexpected_argument_text(rest, help);
      return "unknown command \"" + path + rest[0] + "\"" + list;
    }
    if (what == kNoPid) return "missing argument PID";
    if (what.starts_with(kBadPid)) return "bad pid " + what.substr(std::size(kBadPid) - 1);
    if (path == "top " && std::ranges::find(rest, "--last") != rest.end()) {
      return "top has no --last; its option for a time is --window, such as --window 1m";
    }
    if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
      return what + "; `" + help + "` lists the options";
    }
    for (const std::string& word : rest) {
      if (command != &app_ && command->get_option_no_throw(word) != nullptr) {
        return "write " + word + " after the command: memprofctl " + path + word + " ...";
      }
    }
    return memprofd::unexpected_argument_text(rest, help);
  }
  void add_tls(const char* name, std::string& file, const char* environment, const char* help) {
    app_.add_option(name, file, help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->type_name("FILE")
        ->envname(environment);
  }
  void set_up(CLI::App& app, const char* help, CommandLine::Run run) {
    app.description(help);
    app.callback([this, &app, run = std::move(run)] {  // CLI11 runs a subcommand's callback first
      if (app.get_subcommands().empty()) run_ = run;
    });
  }

  CLI::App app_{
      "memprofctl: queries and controls memprofd, the memory profiler for running OCaml programs",
      "memprofctl"};
  Options options_;
  int program_exit_ = -1;  // -1: no program has run
  CommandLine::Run run_;
  const CommandLine line_{options_, [this](CLI::App& app, const char* help, CommandLine::Run run) {
                            set_up(app, help, std::move(run));
                          }};
};

// Writing beyond `ulimit -f` fails instead of ending memprofctl. A handler, unlike SIG_IGN, is not
// inherited by the programs that memprofctl starts.
void survive_large_files() {
  struct sigaction action {};
  ::sigaction(SIGXFSZ, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  survive_large_files();
  // gRPC's own log is not for people; errors are in our status.
  gpr_set_log_function([](gpr_log_func_args*) {});
  return Program().run(argc, argv);
}
