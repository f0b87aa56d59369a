// SPDX-License-Identifier: Apache-2.0
// The subcommands of memprofctl. Each prints its result to stdout and returns
// the status that decides the exit code; the caller prints the error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/ctl/heap_rules.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/report_format.h"
#include "daemon/ctl/top/top_view.h"

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace memprofd::ctl {

class CommandLine;

// Handling of the program's children by run.
inline constexpr char kSumChildren[] = "sum", kEachChild[] = "each", kNoChildren[] = "no";

// Options that several commands share, and those of commands without options of their own.
struct Options {
  Endpoint endpoint;
  std::string format = kTable;  // or kJson; of reports one of report_formats()
  std::string out;              // file to write to; empty: stdout
  int pid = 0;                  // for commands that act on a process; 0: the only target
  std::string rate;             // "1e-5"
  std::string interval;         // "512KiB": bytes per sample, instead of rate
  std::string max_overhead;     // "1%", "none"
  bool ended = false;           // targets
  bool discovered = false;      // targets
  bool if_needed = false;       // attach
  bool no_inject = false;
  bool follow_forks = false;
  bool native_heap = false;
  std::string native_heap_interval;  // "512KiB"
  ::memprof::v1::AttachMode mode = ::memprof::v1::ATTACH_MODE_UNSPECIFIED;
  QueryOptions query;
  bool callstacks = false;
  bool leaks = false;  // report
  ::memprof::v1::Recursion recursion = ::memprof::v1::RECURSION_UNSPECIFIED;
  bool verdict_exit = false;  // leaks: the exit code shows the result
  bool per_second = false;    // diff
  std::string base, other;    // diff: TARGET[@RANGE]
  std::string function;       // callers
  std::uint32_t points = 40;
  TopOptions top;
  // record, dump, trace
  std::string trace_file;
  std::string duration;  // of the trace; run: of a process that runs already
  std::string max_bytes;
  std::uint32_t max_files = 0;
  int trace_version = 0;
  ::memprof::v1::BlockHeap trace_heap = ::memprof::v1::BLOCK_HEAP_UNSPECIFIED;
  std::uint64_t trace_id = 0;
  // snapshot take, why
  std::string max_pause;  // "50ms"; empty: the daemon's default
  // events
  bool full_callstacks = false;
  std::uint64_t event_limit = 0;

  // snapshot
  std::string heap_file, other_heap_file;
  bool keep_heap = false;  // by memprofd
  ::memprof::v1::HeapContents heap_contents = ::memprof::v1::HEAP_CONTENTS_UNSPECIFIED;
  std::string heap_site;  // why, snapshot why
  std::vector<std::string> heap_cmt;
  std::string heap_under;     // retained
  bool heap_outside = false;  // why: memory outside of the heap; heap_site then matches classes
  std::uint32_t heap_depth = 3;
  std::size_t heap_limit = 10;
  std::string sql;  // query
  std::size_t sql_rows = 100;

  std::size_t rss_files = 10;  // rss
  bool rss_owners = false;

  // run
  std::vector<std::string> program;  // with its arguments
  std::vector<std::string> outs;     // output files; their extensions select the formats
  std::string agent;                 // path; empty: the agent beside memprofctl
  bool quiet = false;
  bool live = false;                    // show live memory while it runs
  std::string children = kSumChildren;  // or kEachChild, kNoChildren
  std::optional<RuleOptions> rules;     // check
  int* program_exit = nullptr;          // set to memprofctl's exit code when the program has run

  bool json() const { return format == kJson; }
  // The default frames of sites: application frames in tables, which are for people.
  ::memprof::v1::Frames frames() const {
    return format == kTable ? ::memprof::v1::FRAMES_APPLICATION : ::memprof::v1::FRAMES_UNSPECIFIED;
  }
};

// The pid to act on (choose_pid); asks for targets only if none is given.
absl::StatusOr<int> pid_to_use(Client& client, int asked);

// Control.
absl::Status run_targets(const Options& options);
absl::Status run_attach(const Options& options);
absl::Status run_detach(const Options& options);
absl::Status run_rate(const Options& options);
// kUnavailable without a daemon, kPermissionDenied when kernel or privileges
// have a problem, kFailedPrecondition when the program has one.
absl::Status run_doctor(const Options& options);
absl::Status run_info(const Options& options);
absl::Status run_rss(const Options& options);

// Questions.
// Starts a program and profiles it to its end, without memprofd.
absl::Status run_run(const Options& options);
absl::Status run_sites(const Options& options);
absl::Status run_report(const Options& options);
absl::Status run_leaks(const Options& options);
absl::Status run_diff(const Options& options);
absl::Status run_callers(const Options& options);
absl::Status run_history(const Options& options);
absl::Status run_top_command(const Options& options);

// The following commands have options of their own (command_line.h). Each function makes app such a
// command.
void add_values(const CommandLine& line, CLI::App& app);
void add_value_history(const CommandLine& line, CLI::App& app);
void add_watch(const CommandLine& line, CLI::App& app);
void add_resume(const CommandLine& line, CLI::App& app);
void add_adjust(const CommandLine& line, CLI::App& app);
void add_ask(const CommandLine& line, CLI::App& app);
void add_trace_calls(const CommandLine& line, CLI::App& app);

struct WatchOptions {
  std::vector<std::string> names;  // or patterns
  bool with_contents = false;
  double period = 1;        // seconds
  std::uint64_t times = 0;  // 0: until the user ends it
  bool keep = false, forget = false;
};
absl::Status run_watch(const Options& options, const WatchOptions& watch);

// Traces and events.
absl::Status run_record(const Options& options);
absl::Status run_dump(const Options& options);
absl::Status run_snapshot_take(const Options& options);
absl::Status run_snapshot_list(const Options& options);
absl::Status run_why(const Options& options);
absl::Status run_events(const Options& options);
absl::Status run_trace_start(const Options& options);
absl::Status run_trace_stop(const Options& options);
absl::Status run_trace_list(const Options& options);

// Heap snapshots: the contents of their files.
absl::Status run_snapshot_retained(const Options& options);
absl::Status run_snapshot_why(const Options& options);
absl::Status run_snapshot_diff(const Options& options);
absl::Status run_snapshot_query(const Options& options);
absl::Status run_snapshot_convert(const Options& options);

}  // namespace memprofd::ctl
