// SPDX-License-Identifier: Apache-2.0
// memprofctl snapshot take: writes a heap snapshot to a file; snapshot list: lists the snapshots
// that memprofd keeps.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/heap_taking.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/render/render_heaps.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

struct TakeOptions {
  bool keep = false;  // by memprofd
  pb::HeapContents contents = pb::HEAP_CONTENTS_UNSPECIFIED;
  std::string max_pause;   // "50ms"; empty: the daemon's default
  bool no_daemon = false;  // this process takes it
};

// "snapshot-4242-20251231T235959.heap": pid, UTC.
std::string default_name(int pid) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32] = "";
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%S", &utc);
  return absl::StrCat("snapshot-", pid, "-", time, ".heap");
}

std::string summary_text(const std::string& file, const pb::SnapshotSummary& summary) {
  return fmt::format(
      "{}: {}, {} blocks in a heap of {}; the program was paused for {} ({} predicted)\n", file,
      format_bytes(static_cast<double>(summary.file_bytes())), format_count(summary.blocks()),
      format_bytes(static_cast<double>(summary.heap_bytes())),
      format_duration(summary.pause_seconds()), format_duration(summary.predicted_pause_seconds()));
}

// The name may be a default that is not known in advance.
std::string summary_json(const std::string& file, const pb::SnapshotSummary& summary) {
  const nlohmann::ordered_json json{{"file", file},
                                    {"file_bytes", summary.file_bytes()},
                                    {"blocks", summary.blocks()},
                                    {"heap_bytes", summary.heap_bytes()},
                                    {"pause_seconds", summary.pause_seconds()},
                                    {"predicted_pause_seconds", summary.predicted_pause_seconds()}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string taken_text(const std::string& file, const pb::SnapshotSummary& summary,
                       const Options& options) {
  return options.json() ? summary_json(file, summary) : summary_text(file, summary);
}

// Like take, but writes the file to stdout and the summary to stderr.
absl::Status take_to_stdout(const HeapTaking& taking, const pb::TakeHeapRequest& request,
                            const Options& options) {
  if (::isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        "a snapshot cannot be written to a terminal; pipe it, or give --out FILE");
  }
  ASSIGN_OR_RETURN(ResultStream out, ResultStream::open(""));
  ASSIGN_OR_RETURN(const pb::SnapshotSummary summary,
                   taking.take(request, [&](std::string_view bytes) {
                     out.write(bytes);
                     return out.failed() ? out.finish() : absl::OkStatus();
                   }));
  RETURN_IF_ERROR(out.finish());
  std::fputs(taken_text("stdout", summary, options).c_str(), stderr);
  return absl::OkStatus();
}

absl::Status take_to_file(const HeapTaking& taking, const pb::TakeHeapRequest& request,
                          const Options& options) {
  const std::string name =
      options.out.empty() ? default_name(request.snapshot().pid()) : options.out;
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(name));
  ASSIGN_OR_RETURN(const pb::SnapshotSummary summary,
                   taking.take(request, [&](std::string_view bytes) { return file.write(bytes); }));
  RETURN_IF_ERROR(file.finish());
  return print(taken_text(name, summary, options));
}

absl::Status have_kept(Client& client, const pb::TakeHeapRequest& asked, const Options& options) {
  pb::KeepHeapRequest request;
  request.set_pid(asked.snapshot().pid());
  request.set_max_pause_seconds(asked.snapshot().max_pause_seconds());
  const Progress progress(absl::StrCat("taking a snapshot of pid ", request.pid()));
  ASSIGN_OR_RETURN(const pb::KeepHeapResponse kept, client.keep_heap(request));
  return options.json() ? print_json(kept) : print(kept_heap_text(kept.heap()));
}

absl::Status run_snapshot_list(const Options& options) {
  Client client(options.endpoint);
  ASSIGN_OR_RETURN(const pb::ListHeapsResponse heaps, client.list_heaps(options.pid));
  return options.json() ? print_json(heaps) : print(kept_heaps_text(heaps));
}

absl::Status run_snapshot_take(const Options& options, const TakeOptions& own) {
  Interrupt interrupt;
  Client client(options.endpoint);
  HeapTaking taking(client, own.no_daemon);
  ASSIGN_OR_RETURN(pb::TakeHeapRequest request, taking.request(options.pid, own.max_pause));
  request.set_contents(own.contents);
  interrupt.on_signal([&taking] { taking.interrupt(); });
  if (own.keep) return have_kept(client, request, options);
  RETURN_IF_ERROR(taking.begin(options.pid));
  return options.out == "-" ? take_to_stdout(taking, request, options)
                            : take_to_file(taking, request, options);
}

}  // namespace

void add_snapshot_take(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  TakeOptions& own = line.set_up(app, "Take a snapshot and write it to a file", &run_snapshot_take);
  add_snapshot_pid(app, options.pid, "pid,--pid");
  CLI::Option* out =
      app.add_option("--out", options.out,
                     "Write to this file, or - for stdout (default: snapshot-PID-TIME.heap)")
          ->type_name("FILE");
  CLI::Option* keep =
      app.add_flag("--keep", own.keep, "Store it in memprofd's --snapshot.directory instead")
          ->excludes(out);
  CLI::Option* contents =
      app.add_flag_callback(
             "--contents", [&own] { own.contents = pb::HEAP_CONTENTS_ALL; },
             "Include the contents of strings and float arrays, which may be secret")
          ->excludes(keep);
  app.add_flag_callback(
         "--fingerprints", [&own] { own.contents = pb::HEAP_CONTENTS_FINGERPRINTS; },
         "Include fingerprints that show which strings are equal, not their contents")
      ->excludes(keep)
      ->excludes(contents);
  add_max_pause(app, own.max_pause);
  add_no_daemon(app, own.no_daemon)->excludes(keep);
  add_format(app, options.format, {kTable, kJson});
}

void add_snapshot_list(const CommandLine& line, CLI::App& app) {
  line.set_up(app, "List the snapshots that memprofd stores", &run_snapshot_list);
  app.add_option("--pid", line.options().pid, "List only snapshots of this process");
  add_format(app, line.options().format, {kTable, kJson});
}

}  // namespace memprofd::ctl
