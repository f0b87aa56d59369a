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
#include "daemon/ctl/top/top_help.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/paths.h"
#include "daemon/util/version.h"

namespace {

using memprofd::ExitCode;
using memprofd::ctl::Options;
namespace ctl = memprofd::ctl;

using Command = absl::Status (*)(const Options&);

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.footer(memprofd::kExitCodeHelp);
    app_.set_version_flag("--version",
                          "memprofctl " + memprofd::version_text(memprofd::program_version()));
    options_.endpoint.socket = memprofd::find_grpc_socket();
    app_.add_option("--grpc.socket", options_.endpoint.socket, "Unix socket of memprofd")
        ->capture_default_str();
    app_.add_option("--address", options_.endpoint.address,
                    "host:port of memprofd, instead of the socket");
    add_control_commands();
    add_question_commands();
    add_stream_commands();
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

  void add_pid(CLI::App* sub) {
    sub->add_option("pid,--pid", options_.pid, "Process; may be omitted when there is one target");
  }
  void add_rate(CLI::App* sub, const char* rate_names) {
    sub->add_option(rate_names, options_.rate, "Samples per word, such as 1e-5");
    sub->add_option("--sampling-interval", options_.interval,
                    "Bytes per sample instead, such as 512KiB");
  }
  void add_format(CLI::App* sub, const std::vector<std::string>& formats) {
    std::string help = "table (default)";
    for (std::size_t i = 1; i < formats.size(); ++i) help += ", " + formats[i];
    sub->add_option("-o,--output", options_.format, help)
        ->check(CLI::IsMember(formats))
        ->type_name("FORMAT");
  }
  CLI::App* add_question(const char* name, const char* help, Command command, bool with_lifetimes) {
    CLI::App* sub = add(name, help, command);
    add_target(*sub, options_.query);
    add_range(*sub, options_.query);
    add_filter(*sub, options_.query, with_lifetimes);
    add_order(*sub, options_.query);
    sub->add_option("--out", options_.out, "Write to a file")->type_name("FILE");
    return sub;
  }

  void add_control_commands() {
    add_format(add("targets", "List the programs that are profiled", &ctl::run_targets),
               {ctl::kTable, ctl::kJson});
    CLI::App* attach = add("attach", "Profile a running program", &ctl::run_attach);
    attach->add_option("pid,--pid", options_.pid, "Process")->required();
    add_rate(attach, "--sampling-rate,--rate");
    attach
        ->add_option("--max-overhead", options_.max_overhead,
                     "Most of the program's CPU that profiling may take, such as 1%; the sampling "
                     "rate is lowered for it; default: memprofd's")
        ->type_name("PERCENT");
    add_format(attach, {ctl::kTable, ctl::kJson});
    attach->add_flag("--no-inject", options_.no_inject,
                     "Only use an agent that is in the program already");
    attach->add_flag("--follow-forks", options_.follow_forks,
                     "Also profile the children that it forks, each as a program of its own");
    attach
        ->add_option("--mode", options_.mode,
                     "auto, agent, or observe: nothing enters the program, allocations only; "
                     "default: memprofd's")
        ->transform(CLI::Transformer(std::map<std::string, ::memprof::v1::AttachMode>{
            {"auto", ::memprof::v1::ATTACH_MODE_AUTO},
            {"agent", ::memprof::v1::ATTACH_MODE_AGENT},
            {"observe", ::memprof::v1::ATTACH_MODE_OBSERVE}}))
        ->type_name("MODE");
    CLI::App* detach = add("detach", "Stop profiling; the program runs on, counts stay readable",
                           &ctl::run_detach);
    add_pid(detach);
    add_format(detach, {ctl::kTable, ctl::kJson});
    CLI::App* rate = add("rate", "Change the sampling rate", &ctl::run_rate);
    rate->add_option("--pid", options_.pid, "Process; may be omitted when there is one target");
    add_rate(rate, "rate,--sampling-rate");
    add_format(rate, {ctl::kTable, ctl::kJson});
    CLI::App* doctor =
        add("doctor", "Check kernel, privileges and a program, with remedies", &ctl::run_doctor);
    add_pid(doctor);
    add_format(doctor, {ctl::kTable, ctl::kJson});
  }

  void add_question_commands() {
    CLI::App* sites =
        add_question("sites", "List allocation sites (all of them with -o json, else 20)",
                     &ctl::run_sites, true);
    add_grouping(*sites, options_.query);
    add_format(sites, {ctl::kTable, ctl::kJson});
    sites->add_flag("--callstacks", options_.callstacks, "Show the callstack of each site");
    CLI::App* report = add_question("report", "Full report of a target or trace file, or a profile",
                                    &ctl::run_report, true);
    add_grouping(*report, options_.query);
    add_format(report, ctl::report_formats());
    report->add_flag("--leaks", options_.leaks, "Sites whose live bytes grow");
    add_diff();
    CLI::App* callers =
        add("callers", "Who calls a function, and whom it calls", &ctl::run_callers);
    callers->add_option("function", options_.function, "Of the function's name")
        ->type_name("REGEX")
        ->required();
    add_target(*callers, options_.query);
    add_range(*callers, options_.query);
    add_filter(*callers, options_.query, true);
    add_order(*callers, options_.query);
    callers->add_option("--out", options_.out, "Write to a file")->type_name("FILE");
    add_format(callers, {ctl::kTable, ctl::kJson});
    CLI::App* history = add_question("history", "Counts over time", &ctl::run_history, false);
    add_grouping(*history, options_.query);
    add_format(history, {ctl::kTable, ctl::kJson});
    history->add_option("--points", options_.points, "Steps at most")->capture_default_str();
    CLI::App* top = add("top", "What a program does now, and did; h on the screen has the keys",
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
        add("diff", "What is different between two targets, ranges or files", &ctl::run_diff);
    diff->add_option("base", options_.base, "PID, FILE, @FROM..TO or PID@FROM..TO")
        ->type_name("BASE")
        ->required();
    diff->add_option("other", options_.other, "The same; what is new is in here")
        ->type_name("OTHER")
        ->required();
    diff->add_flag("--per-second", options_.per_second, "For ranges of unequal length");
    diff->add_option("--out", options_.out, "Write to a file")->type_name("FILE");
    add_filter(*diff, options_.query, true);
    add_order(*diff, options_.query);
    add_grouping(*diff, options_.query);
    add_format(diff, {ctl::kTable, ctl::kJson});
  }

  void add_trace_options(CLI::App* sub) {
    add_target(*sub, options_.query);
    sub->add_option("--duration", options_.duration, "End after so long")->type_name("DURATION");
    sub->add_option("--max-size", options_.max_bytes, "Of a file")->type_name("SIZE");
    sub->add_option("--format-version", options_.trace_version,
                    "2 for programs with one domain, 3 for others")
        ->check(CLI::IsMember({2, 3}));
  }

  void add_stream_commands() {
    CLI::App* record = add("record", "Record a trace in Memtrace's format", &ctl::run_record);
    add_trace_options(record);
    record->add_option("-o,--output", options_.trace_file, "File to write")
        ->type_name("FILE")
        ->required();
    CLI::App* dump = add("dump", "Print every event of a trace file", &ctl::run_dump);
    dump->add_option("file", options_.trace_file)->type_name("FILE")->required();
    CLI::App* events = add("events", "Print events as they happen", &ctl::run_events);
    add_target(*events, options_.query);
    add_filter(*events, options_.query, true);
    add_format(events, {ctl::kTable, ctl::kJson});
    events->add_flag("--callstacks", options_.full_callstacks, "Whole callstacks");
    events->add_option("-n,--limit", options_.event_limit, "End after so many");
    CLI::App* trace = app_.add_subcommand("trace", "Traces written by memprofd itself");
    trace->require_subcommand(1);
    CLI::App* start = add_to(*trace, "start", "Begin one", &ctl::run_trace_start);
    add_trace_options(start);
    start->add_option("--max-files", options_.max_files,
                      "With --max-size: keep so many, begin a new one when one is full");
    CLI::App* stop = add_to(*trace, "stop", "End one", &ctl::run_trace_stop);
    stop->add_option("id", options_.trace_id, "From `memprofctl trace list`")->required();
    add_format(start, {ctl::kTable, ctl::kJson});
    add_format(stop, {ctl::kTable, ctl::kJson});
    add_format(add_to(*trace, "list", "List them", &ctl::run_trace_list),
               {ctl::kTable, ctl::kJson});
  }

  void add_top_options(CLI::App* top) {
    top->add_option("-d,--interval", options_.top.interval_seconds, "Seconds between frames")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    top->add_option("-w,--window", options_.top.window,
                    "What rates and lifetimes are of: the last DURATION, or all since the attach")
        ->type_name("DURATION")
        ->capture_default_str();
    top->add_flag("--plain", options_.top.plain,
                  "Frames of text; the default when not on a terminal");
    CLI::Option* iterations =
        top->add_option("--iterations", options_.top.iterations, "Frames; 0: no limit")
            ->capture_default_str();
    top->add_flag_callback(
           "--once", [this] { options_.top.iterations = 1; }, "One frame")
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
