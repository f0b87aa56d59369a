// memprofctl: the command line client of memprofd.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "daemon/ctl/commands.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/paths.h"

namespace {

using memprofd::ExitCode;
using memprofd::ctl::Options;
namespace pb = ::memprof::v1;

using Command = absl::Status (*)(const Options&);

const std::map<std::string, pb::SiteOrder> kOrders{{"live", pb::SITE_ORDER_LIVE},
                                                   {"allocated", pb::SITE_ORDER_ALLOCATED},
                                                   {"promoted", pb::SITE_ORDER_PROMOTED},
                                                   {"samples", pb::SITE_ORDER_SAMPLES},
                                                   {"lifetime", pb::SITE_ORDER_LIFETIME}};

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.footer(memprofd::kExitCodeHelp);
    app_.set_version_flag("--version", std::string("memprofctl " MEMPROFD_VERSION));
    options_.endpoint.socket = memprofd::find_grpc_socket();
    app_.add_option("--grpc.socket", options_.endpoint.socket, "Unix socket of memprofd")
        ->capture_default_str();
    app_.add_option("--address", options_.endpoint.address,
                    "host:port of memprofd, instead of the socket");
    app_.add_option_function<std::string>(
            "-o,--output", [this](const std::string& value) { options_.json = value == "json"; },
            "table (default) or json")
        ->check(CLI::IsMember({"table", "json"}));
    add_control_commands();
    add_reading_commands();
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
    CLI::App* sub = app_.add_subcommand(name, help);
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
  void add_site_options(CLI::App* sub) {
    sub->add_option_function<std::string>(
           "-s,--sort", [this](const std::string& order) { options_.order = kOrders.at(order); },
           "By what, largest first; default live")
        ->check(CLI::IsMember(kOrders));
    sub->add_option("-n,--limit", options_.limit, "Sites at most; 0: all")
        ->check(CLI::NonNegativeNumber);
    sub->add_option("-m,--match", options_.pattern, "Only functions or files that contain TEXT")
        ->type_name("TEXT");
  }

  void add_control_commands() {
    add("targets", "List the programs that are profiled", &memprofd::ctl::run_targets);
    CLI::App* attach = add("attach", "Profile a running program", &memprofd::ctl::run_attach);
    attach->add_option("pid,--pid", options_.pid, "Process")->required();
    add_rate(attach, "--sampling-rate,--rate");
    attach->add_flag("--no-inject", options_.no_inject,
                     "Only use an agent that is in the program already");
    add_pid(add("detach", "Stop profiling; the program runs on, counts stay readable",
                &memprofd::ctl::run_detach));
    CLI::App* rate = add("rate", "Change the sampling rate", &memprofd::ctl::run_rate);
    rate->add_option("--pid", options_.pid, "Process; may be omitted when there is one target");
    add_rate(rate, "rate,--sampling-rate");
  }

  void add_reading_commands() {
    CLI::App* sites = add("sites", "List allocation sites (all of them with -o json, else 20)",
                          &memprofd::ctl::run_sites);
    add_pid(sites);
    add_site_options(sites);
    sites->add_flag("--callstacks", options_.callstacks, "Show the callstack of each site");
    CLI::App* report = add("report", "Full report of one target", &memprofd::ctl::run_report);
    add_pid(report);
    add_site_options(report);
    CLI::App* top = add("top", "Live view; q quits", &memprofd::ctl::run_top_command);
    add_pid(top);
    add_site_options(top);
    add_top_options(top);
    add_pid(add("doctor", "Check kernel, privileges and a program, with remedies",
                &memprofd::ctl::run_doctor));
  }

  void add_top_options(CLI::App* top) {
    top->add_option("-d,--interval", options_.top.interval_seconds, "Seconds between frames")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    top->add_flag("--plain", options_.top.plain, "Text only; the default when not on a terminal");
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

int main(int argc, char** argv) { return static_cast<int>(CommandLine().run(argc, argv)); }
