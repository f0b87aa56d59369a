// SPDX-License-Identifier: Apache-2.0
// memprofctl: the command line client of memprofd.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
  report, sites, callers   Show allocation sites, live or of a trace file; export profiles
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
// In the order of --help-all, after run and check.
constexpr Entry kCommands[] = {
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
    add_run();
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
      if (const std::string message = usage_message(error); !message.empty()) {
        std::fprintf(stderr, "memprofctl: %s\n", message.c_str());
        return static_cast<int>(ExitCode::kUsage);
      }
      return static_cast<int>(app_.exit(error) == 0 ? ExitCode::kOk : ExitCode::kUsage);
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
  // For errors of which CLI11's own message lacks the cause or the remedy; else empty.
  std::string usage_message(const CLI::ParseError& error) {
    std::string path;
    const CLI::App* command = &app_;
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().back();
      path += command->get_name() + " ";
    }
    const std::string what = error.what();
    const std::vector<std::string> rest = app_.remaining(true);
    if (what == kNoCommand) {
      const std::string list = "; `memprofctl " + path + "--help` lists all commands";
      if (rest.empty()) return "missing command" + list;
      if (rest[0].starts_with('-')) return "";
      return "unknown command \"" + path + rest[0] + "\"" + list;
    }
    if (what == kNoPid) return "missing argument PID";
    if (what.starts_with(kBadPid)) return "bad pid " + what.substr(std::size(kBadPid) - 1);
    if (path == "top " && std::ranges::find(rest, "--last") != rest.end()) {
      return "top has no --last; its option for a time is --window, such as --window 1m";
    }
    return "";
  }
  void add_tls(const char* name, std::string& file, const char* environment, const char* help) {
    app_.add_option(name, file, help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->type_name("FILE")
        ->envname(environment);
  }
  CLI::App* add(const char* name, const char* help, absl::Status (*run)(const Options& options)) {
    CLI::App* app = app_.add_subcommand(name);
    line_.set_up(*app, help, run);
    return app;
  }
  void set_up(CLI::App& app, const char* help, CommandLine::Run run) {
    app.description(help);
    app.callback([this, &app, run = std::move(run)] {  // of a command below it first
      if (app.get_subcommands().empty()) run_ = run;
    });
  }

  void add_run() {
    options_.program_exit = &program_exit_;
    CLI::App* run = add(
        "run", "Start a program and profile it from its first allocation to its end; needs no root",
        &ctl::run_run);
    CLI::Option* program = add_run_options(run);
    CLI::Option* pid =
        run->add_option("--pid", options_.pid,
                        "Profile this running process of the same user instead, until Ctrl-C")
            ->type_name("PID")
            ->check(CLI::PositiveNumber)
            ->excludes(program);
    run->add_option("--for", options_.duration,
                    "With --pid: end after this time, such as 30s; the process continues")
        ->type_name("DURATION")
        ->needs(pid);
    run->add_option(
           "--children", options_.children,
           "Also profile the children that it forks or starts: sum them by program, report "
           "each, or no (default: sum)")
        ->check(CLI::IsMember({ctl::kSumChildren, ctl::kEachChild, ctl::kNoChildren}))
        ->excludes(pid)
        ->type_name("MODE");
    run->add_flag("--live", options_.live,
                  "While it runs, print live memory to stderr once per second, like top");
    CLI::App* check = add(
        "check", "Run a program and exit with 1 if its heap breaks a limit or an assertion; for CI",
        &ctl::run_run);
    check->preparse_callback([this](std::size_t) { options_.rules.emplace(); });
    const auto add_rule = [check, this](const char* name, auto member, const char* help,
                                        const char* type = "[REGEX=]SIZE") {
      check
          ->add_option_function<std::vector<std::string>>(
              name,
              [this, member](const std::vector<std::string>& texts) {
                (*options_.rules).*member = texts;
              },
              help)
          ->type_name(type)
          ->expected(1)
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    };
    add_rule("--max-live", &ctl::RuleOptions::max_live,
             "Limit live bytes at the end, of all sites or of callstacks that match REGEX");
    add_rule("--max-peak", &ctl::RuleOptions::max_peak, "Limit live bytes at the peak");
    add_rule("--max-allocated", &ctl::RuleOptions::max_allocated, "Limit all allocated bytes");
    add_rule("--max-growth", &ctl::RuleOptions::max_growth,
             "Limit growth between major collections in the second half of the run; 0: no growth");
    add_rule("--max-lifetime", &ctl::RuleOptions::max_lifetime,
             "Limit the lifetime of 99 % of the allocated bytes", "[REGEX=]DURATION");
    add_rule("--max-age", &ctl::RuleOptions::max_age,
             "Limit the age of the oldest block that is alive at the end", "[REGEX=]DURATION");
    const auto add_text = [check, this](const char* name, auto member, const char* help,
                                        const char* type) {
      check
          ->add_option_function<std::string>(
              name, [this, member](const std::string& text) { (*options_.rules).*member = text; },
              help)
          ->type_name(type);
    };
    add_text("--rules", &ctl::RuleOptions::file, "Read rules from this YAML file, too", "FILE");
    add_text("--baseline", &ctl::RuleOptions::baseline,
             "Limit live and allocated bytes to those of an earlier run --out FILE.json", "FILE");
    add_text("--tolerance", &ctl::RuleOptions::tolerance,
             "Allow PERCENT more than the baseline (default: 5%)", "PERCENT");
    add_text("--junit", &ctl::RuleOptions::junit, "Write the results as JUnit XML", "FILE");
    add_text("--markdown", &ctl::RuleOptions::markdown, "Write the results as Markdown", "FILE");
    add_run_options(check)->required();
  }
  // Returns the option of the program.
  CLI::Option* add_run_options(CLI::App* run) {
    run->fallthrough(false);
    CLI::Option* program =
        run->add_option("program", options_.program, "The program and its arguments, after --")
            ->type_name("PROGRAM [ARGUMENT...]");
    run->add_option("--out", options_.outs,
                    "Write to this file, in the format that its name ends in; may be repeated "
                    "(.ctf, .pb.gz, .html, .speedscope.json, .folded, .json)")
        ->type_name("FILE")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    ctl::add_sampling_rate(*run, "--sampling-rate,--rate", options_.rate, options_.interval);
    run->add_option("--agent", options_.agent, "Use this agent library")->type_name("FILE");
    run->add_flag("-q,--quiet", options_.quiet, "Print no report");
    run->footer("Example: memprofctl " + run->get_name() +
                (run->get_name() == "run" ? " --out flame.html" : " --max-peak 64MiB") +
                " -- ./my_program --its --arguments");
    return program;
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

}  // namespace

int main(int argc, char** argv) {
  // gRPC's own log is not for people; errors are in our status.
  gpr_set_log_function([](gpr_log_func_args*) {});
  return Program().run(argc, argv);
}
