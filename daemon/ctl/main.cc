// SPDX-License-Identifier: Apache-2.0
// memprofctl: the command line client of memprofd.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/snapshot_command_line.h"
#include "daemon/ctl/top/top_help.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/one_of.h"
#include "daemon/util/paths.h"
#include "daemon/util/version.h"

namespace {

using memprofd::ExitCode;
using memprofd::ctl::Command;
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
    add_control_commands();
    add_question_commands();
    add_stream_commands();
    ctl::add_snapshot_commands(
        app_, options_,
        [this](CLI::App& parent, const char* name, const char* help, Command command) {
          return add_to(parent, name, help, command);
        });
    CLI::App* values = app_.add_subcommand("values");
    ctl::add_values(line_, *values);
    ctl::add_watch(line_, *values->add_subcommand("watch"));
    ctl::add_value_history(line_, *values->add_subcommand("history"));
    ctl::add_adjust(line_, *values->add_subcommand("set"));
    ctl::add_ask(line_, *values->add_subcommand("call"));
    ctl::add_resume(line_, *values->add_subcommand("resume"));
    ctl::add_trace_calls(line_, *app_.add_subcommand("trace-calls"));
    add_earlier_names();
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
  CLI::App* add(const char* name, const char* help, Command command) {
    return add_to(app_, name, help, command);
  }
  CLI::App* add_to(CLI::App& parent, const char* name, const char* help, Command command) {
    return set_up(parent.add_subcommand(name), help, command);
  }
  CLI::App* set_up(CLI::App* sub, const char* help, Command command) {
    set_up(*sub, help, [this, command] { return command(options_); });
    return sub;
  }
  void set_up(CLI::App& sub, const char* help, CommandLine::Run run) {
    sub.description(help);
    sub.callback([this, &sub, run = std::move(run)] {  // of a command below it first
      if (sub.get_subcommands().empty()) run_ = run;
    });
  }
  // Commands that have moved below values and trace.
  void add_earlier_names() {
    const auto hidden = [this](const char* name) { return app_.add_subcommand(name)->group(""); };
    ctl::add_watch(line_, *hidden("watch"));
    ctl::add_value_history(line_, *hidden("value-history"));
    ctl::add_adjust(line_, *hidden("adjust"));
    ctl::add_ask(line_, *hidden("ask"));
    ctl::add_resume(line_, *hidden("resume"));
    add_record(hidden("record"));
    add_dump(hidden("dump"));
  }

  // Refuses -o, which selects a format in all other commands.
  static void refuse_output(CLI::App* sub) {
    // CLI11 omits the name of a hidden option from the message of a check, so check here.
    sub->add_option_function<std::string>(
           "-o,--output",
           [](const std::string& file) {
             throw CLI::ValidationError("-o,--output",
                                        "selects a format; name the file with --out " + file);
           })
        ->group("");
  }

  void add_pid(CLI::App* sub) { ctl::add_pid(*sub, options_.pid, "pid,--pid"); }
  void add_rate(CLI::App* sub, const char* rate_names) {
    sub->add_option(rate_names, options_.rate, "Samples per allocated word, such as 1e-5");
    sub->add_option("--sampling-interval", options_.interval,
                    "Take one sample per SIZE allocated bytes instead, such as 512KiB");
  }
  void add_budget(CLI::App* sub, const std::string& unless_given) {
    sub->add_option("--max-overhead", options_.max_overhead,
                    "Cap profiling at this share of the target's own CPU time by lowering its "
                    "sampling rate; 'none' for no cap (" +
                        unless_given + ")")
        ->type_name("PERCENT");
  }
  void add_format(CLI::App* sub, const std::vector<std::string>& formats) {
    ctl::add_format(*sub, options_.format, formats);
  }
  CLI::App* add_question(const char* name, const char* help, Command command, bool with_lifetimes) {
    CLI::App* sub = add(name, help, command);
    add_target(*sub, options_.query);
    add_range(*sub, options_.query);
    add_filter(*sub, options_.query, with_lifetimes);
    add_order(*sub, options_.query);
    sub->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    return sub;
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
    add_rate(run, "--sampling-rate,--rate");
    run->add_option("--agent", options_.agent, "Use this agent library")->type_name("FILE");
    run->add_flag("-q,--quiet", options_.quiet, "Print no report");
    run->footer("Example: memprofctl " + run->get_name() +
                (run->get_name() == "run" ? " --out flame.html" : " --max-peak 64MiB") +
                " -- ./my_program --its --arguments");
    return program;
  }

  void add_control_commands() {
    CLI::App* targets =
        add("targets", "List targets, the processes that are profiled", &ctl::run_targets);
    CLI::Option* ended = targets->add_flag("--ended", options_.ended,
                                           "List ended targets and how they ended, latest first");
    targets
        ->add_flag("--all", options_.discovered,
                   "List all OCaml programs that run here, and why each is or is not profiled")
        ->excludes(ended);
    add_format(targets, {ctl::kTable, ctl::kJson});
    CLI::App* attach = add("attach", "Start profiling a running process", &ctl::run_attach);
    attach->add_option("pid,--pid", options_.pid, "PID, or --pid PID")->required();
    add_rate(attach, "--sampling-rate,--rate");
    add_budget(attach, "default: as memprofd was started");
    add_format(attach, {ctl::kTable, ctl::kJson});
    attach->add_flag("--if-needed", options_.if_needed,
                     "Succeed without a change if it is already profiled");
    attach->add_flag("--no-inject", options_.no_inject,
                     "Use only an agent that the process has loaded itself; inject nothing");
    attach->add_flag("--follow-forks", options_.follow_forks,
                     "Also profile the children that it forks, each as a target");
    attach->add_flag("--c-heap", options_.native_heap,
                     "Also sample the native heap (malloc), shown as heap=c");
    attach
        ->add_option(
            "--c-heap-interval", options_.native_heap_interval,
            "Sample the native heap once per SIZE allocated bytes; 0: do not (default: 512KiB)")
        ->type_name("SIZE");
    attach
        ->add_option("--mode", options_.mode,
                     "How to attach: auto, agent, or observe, which injects nothing and sees "
                     "allocations only (default: as memprofd was started)")
        ->transform(memprofd::one_of<::memprof::v1::AttachMode>(
            {{"auto", ::memprof::v1::ATTACH_MODE_AUTO},
             {"agent", ::memprof::v1::ATTACH_MODE_AGENT},
             {"observe", ::memprof::v1::ATTACH_MODE_OBSERVE}}))
        ->type_name("MODE");
    CLI::App* detach =
        add("detach", "Stop profiling a target; its counts stay readable", &ctl::run_detach);
    add_pid(detach);
    add_format(detach, {ctl::kTable, ctl::kJson});
    CLI::App* rate = add("rate", "Change a target's sampling rate, its overhead budget, or both",
                         &ctl::run_rate);
    ctl::add_pid(*rate, options_.pid);
    add_rate(rate, "rate,--sampling-rate");
    add_budget(rate, "default: unchanged");
    add_format(rate, {ctl::kTable, ctl::kJson});
    CLI::App* doctor = add("doctor", "Check kernel, privileges and a process, and suggest remedies",
                           &ctl::run_doctor);
    add_pid(doctor);
    add_format(doctor, {ctl::kTable, ctl::kJson});
    add_format(
        add("info", "Show version, features and limits of the running memprofd", &ctl::run_info),
        {ctl::kTable, ctl::kJson});
    CLI::App* rss =
        add("rss", "Break down the resident memory of a process, whether it is a target or not",
            &ctl::run_rss);
    add_pid(rss);
    rss->add_option("-n,--limit", options_.rss_files, "Show at most N files and arenas (0: all)")
        ->capture_default_str();
    rss->add_flag("--owners", options_.rss_owners,
                  "Show the native memory that custom blocks own: Bigarrays, streams, channels");
    add_format(rss, {ctl::kTable, ctl::kJson});
  }

  void add_question_commands() {
    CLI::App* sites = add_question(
        "sites", "List allocation sites (the first 20; all with -o json)", &ctl::run_sites, true);
    add_grouping(*sites, options_.query);
    add_format(sites, {ctl::kTable, ctl::kJson});
    sites->add_flag("--callstacks", options_.callstacks, "Show the callstack of each site");
    CLI::App* report =
        add_question("report", "Print a report of a target or trace file, or export a profile",
                     &ctl::run_report, true);
    add_grouping(*report, options_.query);
    add_format(report, ctl::report_formats());
    report->add_flag("--leaks", options_.leaks, "Show sites whose live bytes grow");
    report
        ->add_option_function<std::string>(
            "--recursion",
            [this](const std::string& word) {
              options_.recursion = word == "folded" ? ::memprof::v1::RECURSION_FOLDED
                                                    : ::memprof::v1::RECURSION_FULL;
            },
            "Show recursion folded (default for html) or full (default for collapsed)")
        ->check(CLI::IsMember({"folded", "full"}))
        ->type_name("FORM");
    add_leaks();
    add_diff();
    CLI::App* callers = add("callers", "Show callers and callees of a function", &ctl::run_callers);
    callers->add_option("function", options_.function, "Pattern for the name of the function")
        ->type_name("REGEX")
        ->required();
    add_target(*callers, options_.query);
    add_range(*callers, options_.query);
    add_filter(*callers, options_.query, true);
    add_order(*callers, options_.query);
    callers->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_format(callers, {ctl::kTable, ctl::kJson});
    CLI::App* history = add_question("history", "Show counts over time", &ctl::run_history, false);
    add_grouping(*history, options_.query);
    add_format(history, {ctl::kTable, ctl::kJson});
    history->add_option("--points", options_.points, "Show at most N points")
        ->capture_default_str();
    CLI::App* top = add("top", "Watch allocation sites live, and go back in time (h: keys)",
                        &ctl::run_top_command);
    add_target(*top, options_.query);
    add_filter(*top, options_.query, false);
    add_order(*top, options_.query);
    add_grouping(*top, options_.query);
    add_format(top, {ctl::kTable, ctl::kJson});
    add_top_options(top);
    top->footer("Keys on the screen:\n  " + absl::StrJoin(ctl::top_help(), "\n  "));
  }

  void add_leaks() {
    CLI::App* leaks = add("leaks", "Report whether a process leaks memory, where, and since when",
                          &ctl::run_leaks);
    add_target(*leaks, options_.query);
    add_range(*leaks, options_.query);
    add_filter(*leaks, options_.query, false);
    add_grouping(*leaks, options_.query);
    leaks
        ->add_option("--for", options_.duration,
                     "Wait DURATION, then answer; two heap snapshots show which variables grew")
        ->type_name("DURATION");
    ctl::add_max_pause(*leaks, options_);
    leaks
        ->add_option("--cmt", options_.heap_cmt,
                     "Also look for names of variables in this .cmt or .cmi file, or below this "
                     "folder; repeatable")
        ->type_name("PATH")
        ->allow_extra_args(false);
    leaks->add_flag("--exit-code", options_.verdict_exit,
                    "Exit with 1 if something leaks, with 9 if too little is known yet");
    leaks->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_format(leaks, {ctl::kTable, ctl::kJson});
    leaks->footer(
        "Exits with 0 whether something leaks or not, unless --exit-code is given.\n"
        "Ctrl-C ends --for early, with what is known then.");
  }

  void add_diff() {
    CLI::App* diff = add("diff", "Compare two targets, time ranges or trace files", &ctl::run_diff);
    diff->add_option("base", options_.base, "Baseline: PID, FILE, @FROM..TO or PID@FROM..TO")
        ->type_name("BASE")
        ->required();
    diff->add_option("other", options_.other, "Later one, in the same form")
        ->type_name("OTHER")
        ->required();
    diff->add_flag("--per-second", options_.per_second,
                   "Show differences per second, for ranges of unequal length");
    diff->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_filter(*diff, options_.query, true);
    add_order(*diff, options_.query);
    add_grouping(*diff, options_.query);
    add_format(diff, {ctl::kTable, ctl::kJson});
  }

  void add_trace_options(CLI::App* sub) {
    add_target(*sub, options_.query);
    sub->add_option("--duration", options_.duration, "Stop after this time")->type_name("DURATION");
    sub->add_option("--max-size", options_.max_bytes, "Stop when the file reaches this size")
        ->type_name("SIZE");
    sub->add_option("--format-version", options_.trace_version,
                    "Version of the trace format: 2 (default with one domain) or 3 (with several)")
        ->check(CLI::IsMember({2, 3}));
    sub->add_option_function<std::string>(
           "--heap", [&](const std::string&) { options_.trace_heap = ::memprof::v1::BLOCK_HEAP_C; },
           "Record only the native heap (c), which has a sampling rate of its own; the trace marks "
           "its blocks as external")
        ->check(CLI::IsMember({"c"}));
  }

  void add_record(CLI::App* record) {
    set_up(record, "Record a trace in Memtrace's format", &ctl::run_record);
    add_trace_options(record);
    record->add_option("--out", options_.trace_file, "Write to this file")
        ->type_name("FILE")
        ->required();
    refuse_output(record);
  }
  void add_dump(CLI::App* dump) {
    set_up(dump, "Print every event of a trace file", &ctl::run_dump);
    dump->add_option("file", options_.trace_file, "Trace file to read")
        ->type_name("FILE")
        ->required();
  }
  void add_stream_commands() {
    CLI::App* events = add("events", "Print sampled events as they happen", &ctl::run_events);
    add_target(*events, options_.query);
    add_filter(*events, options_.query, true);
    add_format(events, {ctl::kTable, ctl::kJson});
    events->add_flag("--callstacks", options_.full_callstacks, "Print complete callstacks");
    events->add_option("-n,--limit", options_.event_limit, "Stop after N events");
    CLI::App* trace =
        app_.add_subcommand("trace", "Record traces, to a local file or on memprofd's disk");
    trace->require_subcommand(1);
    add_record(trace->add_subcommand("record"));
    add_dump(trace->add_subcommand("dump"));
    CLI::App* start = add_to(*trace, "start", "Have memprofd write a trace to its own disk",
                             &ctl::run_trace_start);
    add_trace_options(start);
    start->add_option(
        "--max-files", options_.max_files,
        "Keep the N newest files; a file that reaches --max-size is followed by a new one");
    CLI::App* stop = add_to(*trace, "stop", "Stop a trace", &ctl::run_trace_stop);
    stop->add_option("id", options_.trace_id,
                     "ID of the trace, as `memprofctl trace list` prints it")
        ->required();
    add_format(start, {ctl::kTable, ctl::kJson});
    add_format(stop, {ctl::kTable, ctl::kJson});
    add_format(add_to(*trace, "list", "List traces", &ctl::run_trace_list),
               {ctl::kTable, ctl::kJson});
  }

  void add_top_options(CLI::App* top) {
    top->add_option("-d,--interval", options_.top.interval_seconds, "Seconds between frames")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    top->add_option("-w,--window", options_.top.window,
                    "Compute rates and lifetimes over the last DURATION, or since the attach (all)")
        ->type_name("DURATION")
        ->capture_default_str();
    top->add_flag("--plain", options_.top.plain,
                  "Print plain text frames; default when stdout is not a terminal");
    CLI::Option* iterations =
        top->add_option("--iterations", options_.top.iterations, "Stop after N frames (0: never)")
            ->capture_default_str();
    top->add_flag_callback(
           "--once", [this] { options_.top.iterations = 1; }, "Print one frame and exit")
        ->excludes(iterations);
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
