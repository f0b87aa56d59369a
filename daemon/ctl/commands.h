// SPDX-License-Identifier: Apache-2.0
// The commands of memprofctl. Each prints its result to stdout and returns the status that decides
// the exit code; the caller prints the error.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/report_format.h"

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace memprofd::ctl {

class CommandLine;

// Options that several commands share. A command has a struct of its own beside these
// (command_line.h).
struct Options {
  Endpoint endpoint;
  std::string format = kTable;  // or kJson; of reports one of report_formats()
  std::string out;              // file to write to; empty: stdout
  int pid = 0;                  // for commands that act on a process; 0: the only target
  std::string rate;             // "1e-5"
  std::string interval;         // "512KiB": bytes per sample, instead of rate
  QueryOptions query;
  int* program_exit = nullptr;  // set to memprofctl's exit code by a command that has run a program

  bool json() const { return format == kJson; }
  // The default frames of sites: application frames in tables, which are for people.
  ::memprof::v1::Frames frames() const {
    return format == kTable ? ::memprof::v1::FRAMES_APPLICATION : ::memprof::v1::FRAMES_UNSPECIFIED;
  }
};

// The pid to act on (choose_pid); asks for targets only if none is given, and without memprofd one
// has to be given.
absl::StatusOr<int> pid_to_use(Client& client, int asked, bool no_daemon = false);

// Each of the following functions makes app the command of its name.

// Without memprofd.
void add_run(const CommandLine& line, CLI::App& app);
void add_check(const CommandLine& line, CLI::App& app);

// Control.
void add_targets(const CommandLine& line, CLI::App& app);
void add_attach(const CommandLine& line, CLI::App& app);
void add_detach(const CommandLine& line, CLI::App& app);
void add_rate(const CommandLine& line, CLI::App& app);
void add_doctor(const CommandLine& line, CLI::App& app);
void add_info(const CommandLine& line, CLI::App& app);
void add_rss(const CommandLine& line, CLI::App& app);

// Questions.
void add_sites(const CommandLine& line, CLI::App& app);
void add_report(const CommandLine& line, CLI::App& app);
void add_leaks(const CommandLine& line, CLI::App& app);
void add_diff(const CommandLine& line, CLI::App& app);
void add_callers(const CommandLine& line, CLI::App& app);
void add_history(const CommandLine& line, CLI::App& app);
void add_top(const CommandLine& line, CLI::App& app);

// Traces and events. trace is a group with record, dump and others.
void add_events(const CommandLine& line, CLI::App& app);
void add_trace(const CommandLine& line, CLI::App& app);
void add_record(const CommandLine& line, CLI::App& app);
void add_dump(const CommandLine& line, CLI::App& app);
void add_trace_calls(const CommandLine& line, CLI::App& app);

// Heap snapshots. snapshot is a group with take, list, query and others.
void add_why(const CommandLine& line, CLI::App& app);
void add_snapshot(const CommandLine& line, CLI::App& app);
void add_snapshot_take(const CommandLine& line, CLI::App& app);
void add_snapshot_list(const CommandLine& line, CLI::App& app);
void add_snapshot_query(const CommandLine& line, CLI::App& app);

// Values of a program. values is also a group with all others.
void add_values(const CommandLine& line, CLI::App& app);
void add_watch(const CommandLine& line, CLI::App& app);
void add_value_history(const CommandLine& line, CLI::App& app);
void add_adjust(const CommandLine& line, CLI::App& app);
void add_ask(const CommandLine& line, CLI::App& app);
void add_resume(const CommandLine& line, CLI::App& app);

}  // namespace memprofd::ctl
