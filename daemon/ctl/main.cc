// SPDX-License-Identifier: Apache-2.0
// memprofctl: the command line client of memprofd.
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/snapshot_command_line.h"
#include "daemon/ctl/top/top_help.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/one_of.h"
#include "daemon/util/paths.h"
#include "daemon/util/version.h"

namespace {

using memprofd::ExitCode;
using memprofd::ctl::Command;
using memprofd::ctl::Options;
namespace ctl = memprofd::ctl;

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.footer(memprofd::kExitCodeHelp);
    app_.set_version_flag("--version",
                          "memprofctl " + memprofd::version_text(memprofd::program_version()));
    options_.endpoint.socket = memprofd::find_grpc_socket();
    app_.add_option("--grpc.socket", options_.endpoint.socket,
                    "Reach memprofd through this Unix socket")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)  // of an alias and of the day
        ->capture_default_str();
    app_.add_option("--address", options_.endpoint.address,
                    "Reach memprofd at HOST:PORT, instead of the socket")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_control_commands();
    add_question_commands();
    add_stream_commands();
    ctl::add_snapshot_commands(
        app_, options_,
        [this](CLI::App& parent, const char* name, const char* help, Command command) {
          return add_to(parent, name, help, command);
        });
    add_values();
    add_value_history();
    add_watch();
    add_adjust();
    add_pid_of(add("resume", "Let a program go on that waits in a pause", &ctl::run_resume));
    add_ask();
    add_trace_calls();
  }

  ExitCode run(int argc, char** argv) {
    try {  // CLI11 reports through exceptions
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? ExitCode::kOk : ExitCode::kUsage;
    }
    const absl::Status status = command_(options_);
    if (status.ok()) return ExitCode::kOk;
    std::fprintf(stderr, "memprofctl: %s\n", std::string(status.message()).c_str());
    return memprofd::exit_code_of(status);
  }

 private:
  CLI::App* add(const char* name, const char* help, Command command) {
    return add_to(app_, name, help, command);
  }
  CLI::App* add_to(CLI::App& parent, const char* name, const char* help, Command command) {
    CLI::App* sub = parent.add_subcommand(name, help);
    sub->callback([this, command] { command_ = command; });
    return sub;
  }

  // It is a format in all other commands.
  static void refuse_output(CLI::App* sub) {
    // A check's message would lack the name: CLI11 leaves out that of a hidden option.
    sub->add_option_function<std::string>("-o,--output",
                                          [](const std::string& file) {
                                            throw CLI::ValidationError(
                                                "-o,--output",
                                                "is for formats; name the file by --out " + file);
                                          })
        ->group("");
  }

  void add_pid(CLI::App* sub) {
    sub->add_option("pid,--pid", options_.pid,
                    "Name the process; may be omitted when there is one target");
  }
  // The word of these commands is something else.
  void add_pid_of(CLI::App* sub) {
    sub->add_option("--pid", options_.pid,
                    "Name the process; may be omitted when there is one target");
  }
  void add_rate(CLI::App* sub, const char* rate_names) {
    sub->add_option(rate_names, options_.rate,
                    "Take so many samples per allocated word, such as 1e-5");
    sub->add_option("--sampling-interval", options_.interval,
                    "Take a sample per so many bytes instead, such as 512KiB");
  }
  void add_budget(CLI::App* sub, const std::string& unless_given) {
    sub->add_option("--max-overhead", options_.max_overhead,
                    "Lower the sampling rate so that profiling takes at most so much of the "
                    "program's CPU, such as 0.5%, or none for no limit (" +
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

  void add_control_commands() {
    CLI::App* targets = add("targets", "List the programs that are profiled", &ctl::run_targets);
    targets->add_flag("--ended", options_.ended,
                      "List those that have ended, and how, the last one first");
    add_format(targets, {ctl::kTable, ctl::kJson});
    CLI::App* attach = add("attach", "Profile a running program", &ctl::run_attach);
    attach->add_option("pid,--pid", options_.pid, "Name the process")->required();
    add_rate(attach, "--sampling-rate,--rate");
    add_budget(attach, "default: as memprofd was told");
    add_format(attach, {ctl::kTable, ctl::kJson});
    attach->add_flag("--if-needed", options_.if_needed,
                     "Leave it as it is, and succeed, when it is profiled already");
    attach->add_flag("--no-inject", options_.no_inject,
                     "Use only an agent that is in the program already");
    attach->add_flag("--follow-forks", options_.follow_forks,
                     "Profile also the children that it forks, each as a program of its own");
    attach->add_flag("--c-heap", options_.c_heap,
                     "Follow also what C code takes by malloc, shown as heap=c");
    attach
        ->add_option("--c-heap-interval", options_.c_heap_interval,
                     "Follow it with a sample per so many bytes, or not at all with 0 "
                     "(default: 512KiB)")
        ->type_name("SIZE");
    attach
        ->add_option("--mode", options_.mode,
                     "Choose auto, agent, or observe: nothing enters the program, allocations "
                     "only (default: as memprofd was told)")
        ->transform(memprofd::one_of<::memprof::v1::AttachMode>(
            {{"auto", ::memprof::v1::ATTACH_MODE_AUTO},
             {"agent", ::memprof::v1::ATTACH_MODE_AGENT},
             {"observe", ::memprof::v1::ATTACH_MODE_OBSERVE}}))
        ->type_name("MODE");
    CLI::App* detach = add("detach", "Stop profiling; the program runs on, counts stay readable",
                           &ctl::run_detach);
    add_pid(detach);
    add_format(detach, {ctl::kTable, ctl::kJson});
    CLI::App* rate = add("rate", "Change the sampling rate, its budget, or both", &ctl::run_rate);
    add_pid_of(rate);
    add_rate(rate, "rate,--sampling-rate");
    add_budget(rate, "default: stays as it is");
    add_format(rate, {ctl::kTable, ctl::kJson});
    CLI::App* doctor =
        add("doctor", "Check kernel, privileges and a program, with remedies", &ctl::run_doctor);
    add_pid(doctor);
    add_format(doctor, {ctl::kTable, ctl::kJson});
    add_format(
        add("info", "Show which memprofd answers, what it can do and its limits", &ctl::run_info),
        {ctl::kTable, ctl::kJson});
    CLI::App* rss = add("rss", "Show where the resident memory of a program is, a target or not",
                        &ctl::run_rss);
    add_pid(rss);
    rss->add_option("-n,--limit", options_.rss_files, "Show so many files and arenas (0: all)")
        ->capture_default_str();
    rss->add_flag("--owners", options_.rss_owners,
                  "Show what C memory custom blocks hold: Bigarrays, streams, channels");
    add_format(rss, {ctl::kTable, ctl::kJson});
  }

  void add_question_commands() {
    CLI::App* sites =
        add_question("sites", "List allocation sites (all of them with -o json, else 20)",
                     &ctl::run_sites, true);
    add_grouping(*sites, options_.query);
    add_format(sites, {ctl::kTable, ctl::kJson});
    sites->add_flag("--callstacks", options_.callstacks, "Show the callstack of each site");
    CLI::App* report =
        add_question("report", "Print a report of a target or trace file, or write a profile",
                     &ctl::run_report, true);
    add_grouping(*report, options_.query);
    add_format(report, ctl::report_formats());
    report->add_flag("--leaks", options_.leaks, "Show the sites whose live bytes grow");
    add_diff();
    CLI::App* callers =
        add("callers", "Show who calls a function, and whom it calls", &ctl::run_callers);
    callers->add_option("function", options_.function, "Match the function's name")
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
    history->add_option("--points", options_.points, "Show at most so many steps")
        ->capture_default_str();
    CLI::App* top =
        add("top", "Watch what a program does now, and did; h on the screen has the keys",
            &ctl::run_top_command);
    add_target(*top, options_.query);
    add_filter(*top, options_.query, false);
    add_order(*top, options_.query);
    add_grouping(*top, options_.query);
    add_format(top, {ctl::kTable, ctl::kJson});
    add_top_options(top);
    top->footer("Keys on the screen:\n  " + absl::StrJoin(ctl::top_help(), "\n  "));
  }

  void add_diff() {
    CLI::App* diff =
        add("diff", "Show what is different between two targets, ranges or files", &ctl::run_diff);
    diff->add_option("base", options_.base, "Compare with PID, FILE, @FROM..TO or PID@FROM..TO")
        ->type_name("BASE")
        ->required();
    diff->add_option("other", options_.other, "Name the later one in the same way")
        ->type_name("OTHER")
        ->required();
    diff->add_flag("--per-second", options_.per_second,
                   "Divide by the ranges' lengths, for ranges of unequal length");
    diff->add_option("--out", options_.out, "Write to this file")->type_name("FILE");
    add_filter(*diff, options_.query, true);
    add_order(*diff, options_.query);
    add_grouping(*diff, options_.query);
    add_format(diff, {ctl::kTable, ctl::kJson});
  }

  void add_trace_options(CLI::App* sub) {
    add_target(*sub, options_.query);
    sub->add_option("--duration", options_.duration, "Stop after so long")->type_name("DURATION");
    sub->add_option("--max-size", options_.max_bytes, "Stop when the file has this size")
        ->type_name("SIZE");
    sub->add_option("--format-version", options_.trace_version,
                    "Write version 2 (default for programs with one domain) or 3 (for others)")
        ->check(CLI::IsMember({2, 3}));
    sub->add_option_function<std::string>(
           "--heap", [&](const std::string&) { options_.trace_heap = ::memprof::v1::BLOCK_HEAP_C; },
           "Record C's memory alone (c), which a trace with other heaps cannot have: it has a "
           "sampling rate of its own. The file calls it external")
        ->check(CLI::IsMember({"c"}));
  }

  void add_stream_commands() {
    CLI::App* record = add("record", "Record a trace in Memtrace's format", &ctl::run_record);
    add_trace_options(record);
    record->add_option("--out", options_.trace_file, "Write to this file")
        ->type_name("FILE")
        ->required();
    refuse_output(record);
    CLI::App* dump = add("dump", "Print every event of a trace file", &ctl::run_dump);
    dump->add_option("file", options_.trace_file, "Read this trace file")
        ->type_name("FILE")
        ->required();
    CLI::App* events = add("events", "Print events as they happen", &ctl::run_events);
    add_target(*events, options_.query);
    add_filter(*events, options_.query, true);
    add_format(events, {ctl::kTable, ctl::kJson});
    events->add_flag("--callstacks", options_.full_callstacks, "Print whole callstacks");
    events->add_option("-n,--limit", options_.event_limit, "Stop after so many events");
    CLI::App* trace = app_.add_subcommand("trace", "Have memprofd itself write traces");
    trace->require_subcommand(1);
    CLI::App* start =
        add_to(*trace, "start", "Start a trace on the daemon's disk", &ctl::run_trace_start);
    add_trace_options(start);
    start->add_option("--max-files", options_.max_files,
                      "Keep so many files: with --max-size a new one begins when one is full");
    CLI::App* stop = add_to(*trace, "stop", "Stop a trace", &ctl::run_trace_stop);
    stop->add_option("id", options_.trace_id, "Name it as `memprofctl trace list` does")
        ->required();
    add_format(start, {ctl::kTable, ctl::kJson});
    add_format(stop, {ctl::kTable, ctl::kJson});
    add_format(add_to(*trace, "list", "List traces", &ctl::run_trace_list),
               {ctl::kTable, ctl::kJson});
  }

  void add_values() {
    CLI::App* values =
        add("values", "Show what a running program says about itself, and what its modules hold",
            &ctl::run_values);
    values
        ->add_option("pattern", options_.value_pattern,
                     "Show only names that match, such as 'Cache'")
        ->type_name("REGEX");
    add_pid_of(values);
    values->add_flag("--constants,--discover", options_.with_constants,
                     "Show also what never changes: functions, constants, integers");
    values->add_flag("--contents", options_.with_contents,
                     "Show what is in strings, which may be secret");
    values->add_option("-n,--limit", options_.value_limit, "Show so many values")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    CLI::Option* watch = values->add_flag_callback(
        "--watch", [this] { options_.watched = {"."}; }, "Show what changes, as watch does");
    values
        ->add_option("--graph", options_.graph_of,
                     "Show one value with all blocks that it leads to, each once")
        ->type_name("NAME")
        ->excludes(watch);
    values
        ->add_flag("--by-domain", options_.by_domain,
                   "Show also what of counts and times is each domain's")
        ->excludes(watch);
    values
        ->add_flag("--snapshot", options_.values_from_snapshot,
                   "Count what is too large to be read while the program runs in a snapshot of its "
                   "heap, for which it stands still a moment")
        ->excludes(watch);
    ctl::add_max_pause(*values, options_);
    add_format(values, {ctl::kTable, ctl::kJson, ctl::kDot});
  }

  void add_value_history() {
    CLI::App* history =
        add("value-history", "Show what a program has said about itself, or a recording has of it",
            &ctl::run_value_history);
    add_target(*history, options_.query);
    add_range(*history, options_.query);
    history
        ->add_option("--match", options_.value_pattern,
                     "Show only names that match, such as '^requests'")
        ->type_name("REGEX");
    history->add_flag("--log", options_.with_lines, "Show also lines of its log");
    history->add_option("--points", options_.points, "Show at most so many steps")
        ->capture_default_str();
    add_format(history, {ctl::kTable, ctl::kJson});
  }

  void add_adjust() {
    CLI::App* adjust =
        add("adjust", "Switch what a program says about itself off or on, or change its period",
            &ctl::run_adjust);
    adjust
        ->add_option("pattern", options_.value_pattern,
                     "Choose names that match, such as '^requests'; all where there is none")
        ->type_name("REGEX");
    add_pid_of(adjust);
    adjust->add_option("--label", options_.labels, "Choose what has this label, such as route=/a")
        ->type_name("KEY=VALUE");
    CLI::Option* off = adjust->add_flag("--off", options_.switch_off, "Stop looking at them");
    adjust->add_flag("--on", options_.switch_on, "Look at them again")->excludes(off);
    adjust
        ->add_option("--period", options_.period_ms,
                     "Have functions called each so many milliseconds; 0: as the program says")
        ->check(CLI::Range(0, 86'400'000));
  }

  void add_ask() {
    CLI::App* ask = add("ask", "Have a program do what it offers by a name, and print its answer",
                        &ctl::run_ask);
    ask->add_option("name", options_.request_name, "Choose what it does; values lists the names")
        ->required()
        ->type_name("NAME");
    ask->add_option("argument", options_.request_argument, "Give the program's function this text")
        ->type_name("TEXT");
    add_pid_of(ask);
    ask->add_option("--timeout", options_.timeout,
                    "Take the request back when it has no answer after this time, at most 60s")
        ->type_name("TIME")
        ->capture_default_str();
    add_format(ask, {ctl::kTable, ctl::kJson});
  }

  void add_watch() {
    CLI::App* watch =
        add("watch", "Show what changes of some values, again and again", &ctl::run_watch);
    watch
        ->add_option("names", options_.watched,
                     "Name them as `memprofctl values` does; patterns are possible")
        ->type_name("REGEX")
        ->required();
    add_pid_of(watch);
    watch->add_option("-d,--interval", options_.watch_period, "Look each so many seconds")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    watch->add_option("-n,--count", options_.watch_times, "End after so many looks");
    watch->add_flag("--contents", options_.with_contents,
                    "Show what is in strings, which may be secret");
    CLI::Option* keep = watch->add_flag(
        "--keep", options_.keep_watched,
        "Have memprofd keep the numbers of those values of modules for value-history, and end");
    watch->add_flag("--forget", options_.forget_watched, "Have memprofd keep them no longer")
        ->excludes(keep);
    add_format(watch, {ctl::kTable, ctl::kJson});
  }

  void add_trace_calls() {
    CLI::App* calls = add("trace-calls", "Count the calls of functions of a running program",
                          &ctl::run_trace_calls);
    calls
        ->add_option("pattern", options_.calls_pattern,
                     "Name the functions, such as 'Order_parser\\.*'")
        ->type_name("REGEX")
        ->required();
    add_pid_of(calls);
    calls->add_flag("--time", options_.calls_with_time,
                    "Show also how long calls took, which costs ten times as much");
    calls->add_option("--duration", options_.duration, "Stop after so long")->type_name("DURATION");
    calls
        ->add_option("--max-hits", options_.max_hits,
                     "Stop when the probes are hit more often in one second (default: 20000)")
        ->check(CLI::PositiveNumber);
    calls->add_option("-d,--interval", options_.calls_interval, "Show counts each so many seconds")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    add_format(calls, {ctl::kTable, ctl::kJson});
  }

  void add_top_options(CLI::App* top) {
    top->add_option("-d,--interval", options_.top.interval_seconds,
                    "Draw a frame each so many seconds")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    top->add_option(
           "-w,--window", options_.top.window,
           "Count rates and lifetimes over the last DURATION, or over all since the attach")
        ->type_name("DURATION")
        ->capture_default_str();
    top->add_flag("--plain", options_.top.plain,
                  "Print frames of text; the default when not on a terminal");
    CLI::Option* iterations = top->add_option("--iterations", options_.top.iterations,
                                              "Stop after so many frames (0: never)")
                                  ->capture_default_str();
    top->add_flag_callback(
           "--once", [this] { options_.top.iterations = 1; }, "Print one frame")
        ->excludes(iterations);
  }

  CLI::App app_{"memprofctl: look at and control memprofd, the memory profiler for OCaml programs",
                "memprofctl"};
  Options options_;
  Command command_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  // What gRPC has to say of itself is not for people; what went wrong is in our status.
  gpr_set_log_function([](gpr_log_func_args*) {});
  return static_cast<int>(CommandLine().run(argc, argv));
}
