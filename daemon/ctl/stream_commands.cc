// SPDX-License-Identifier: Apache-2.0
// Commands about traces and events.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/command_line.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/event_lines.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/value_recording.h"
#include "daemon/trace/ctf/ctf_dump.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// The pid of the running target that the command line selects.
absl::StatusOr<int> running_target(const Options& options) {
  ASSIGN_OR_RETURN(const TargetSpec target, parse_target(options.query.target));
  if (!target.file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(target.file, " is not a pid; give the pid of a target"));
  }
  ASSIGN_OR_RETURN(const QuestionTarget asked, ask(target, options.endpoint));
  return asked.pid;
}

// The options of a trace, whoever writes its file.
struct TraceChoice {
  std::string duration;
  std::string max_bytes;
  int version = 0;  // 0: memprofd chooses
  pb::BlockHeap heap = pb::BLOCK_HEAP_UNSPECIFIED;
};

void add_trace_choice(CLI::App& app, Options& options, TraceChoice& choice) {
  add_running_target(app, options.query);
  app.add_option("--duration", choice.duration, "Stop after this time")->type_name("DURATION");
  app.add_option("--max-size", choice.max_bytes, "Stop when the file reaches this size")
      ->type_name("SIZE");
  add_trace_version(app, choice.version);
  app.add_option_function<std::string>(
         "--heap", [&choice](const std::string&) { choice.heap = pb::BLOCK_HEAP_C; },
         "Record only the native heap (c), which has a sampling rate of its own; the trace marks "
         "its blocks as external")
      ->check(CLI::IsMember({"c"}));
}

absl::StatusOr<pb::TraceOptions> trace_options(const Options& options, const TraceChoice& choice) {
  pb::TraceOptions trace;
  ASSIGN_OR_RETURN(const int pid, running_target(options));
  trace.set_pid(pid);
  trace.set_version(choice.version);
  trace.set_heap(choice.heap);
  if (!choice.duration.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(choice.duration));
    if (seconds == 0) {
      return absl::InvalidArgumentError(
          "--duration 0 would never end: give a time above 0, or leave it out");
    }
    trace.set_max_seconds(seconds);
  }
  if (!choice.max_bytes.empty()) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_size(choice.max_bytes));
    trace.set_max_bytes(bytes);
  }
  return trace;
}

std::string stats_text(const pb::TraceStats& stats) {
  std::string out =
      absl::StrCat(format_bytes(static_cast<double>(stats.bytes())), ", ",
                   samples_text(stats.samples()), ", ", format_count(stats.events()), " events");
  if (stats.dropped_events() > 0) {
    absl::StrAppend(&out, ", ", format_count(stats.dropped_events()),
                    " lost because writing was too slow");
  }
  if (stats.lost_records() > 0) {
    absl::StrAppend(&out, ", ", format_count(stats.lost_records()),
                    " records lost before they reached memprofd");
  }
  if (stats.unfollowed_events() > 0) {
    absl::StrAppend(&out, ", ", format_count(stats.unfollowed_events()),
                    " of earlier blocks omitted");
  }
  return out;
}

std::string trace_line(const pb::TraceInfo& trace) {
  std::string out =
      absl::StrCat("trace ", trace.id(), " of pid ", trace.options().pid(),
                   trace.options().heap() == pb::BLOCK_HEAP_C ? ", native heap: " : ": ",
                   stats_text(trace.stats()), "; since ", utc_text(trace.started_unix_ns()));
  if (trace.ended_unix_ns() > 0) {
    absl::StrAppend(&out, ", ended ", utc_text(trace.ended_unix_ns()), ": ", trace.ended());
  }
  for (const std::string& file : trace.files()) absl::StrAppend(&out, "\n  ", file);
  return out + "\n";
}

// Returns false if the recording has not begun, or the memprofd is too old to end it.
bool end_recording(const Endpoint& endpoint, std::uint64_t recording) {
  return recording != 0 && Client(endpoint).end_recording(recording).ok();
}

absl::Status print_trace(const Options& options, const pb::TraceInfo& trace) {
  return options.json() ? print_json(trace) : print(trace_line(trace));
}

// ---------------------------------------------------------------- record, dump

struct RecordOptions {
  TraceChoice trace;
  std::string file;
};

// Writes the history from `begin` on, and reports the result to the user; does nothing if no values
// were published.
absl::StatusOr<std::string> record_values(Client& client, int pid, std::int64_t begin_unix_ns,
                                          const std::string& trace_file) {
  constexpr std::uint32_t kMaxPoints = 10'000;
  pb::GetValueHistoryRequest request;
  request.set_pid(pid);
  request.mutable_range()->set_begin_unix_ns(begin_unix_ns);
  request.set_points(kMaxPoints);
  request.set_with_lines(true);
  auto values = client.get_value_history(request);
  if (absl::IsPermissionDenied(values.status())) {  // some users may not see log lines
    request.set_with_lines(false);
    values = client.get_value_history(request);
  }
  if (absl::IsUnimplemented(values.status())) return "";  // an older memprofd
  RETURN_IF_ERROR(values.status());
  if (values->series().empty() && values->phases().empty() && values->lines().empty()) return "";
  RETURN_IF_ERROR(write_value_recording(*values, trace_file));
  return absl::StrCat(values_file_of(trace_file), ": ", values->series_size(),
                      " published numbers\n");
}

absl::Status run_record(const Options& options, const RecordOptions& own) {
  Interrupt interrupt;
  pb::RecordRequest request;
  ASSIGN_OR_RETURN(*request.mutable_options(), trace_options(options, own.trace));
  const File file(std::fopen(own.file.c_str(), "wb"));
  if (file == nullptr) return cannot_write(own.file);
  Client client(options.endpoint);
  std::atomic<std::uint64_t> recording = 0;
  // If a stream is cancelled, events that memprofd has not sent yet are lost.
  interrupt.on_signal(
      [&] {
        if (!end_recording(options.endpoint, recording)) client.interrupt();
      },
      [&client] { client.interrupt(); });
  const auto begin_unix_ns = static_cast<std::int64_t>(realtime_ns());
  pb::RecordResponse last;
  {
    const Progress progress(absl::StrCat("recording pid ", request.options().pid(), " to ",
                                         own.file, "; Ctrl-C ends it"));
    RETURN_IF_ERROR(client.record(request, [&](const pb::RecordResponse& response) {
      const std::string& data = response.data();
      if (std::fwrite(data.data(), 1, data.size(), file.get()) != data.size() ||
          std::fflush(file.get()) != 0) {
        return cannot_write(own.file);
      }
      last = response;
      recording = response.recording();
      return absl::OkStatus();
    }));
  }
  Client asker(options.endpoint);  // a separate client, because the other one may have been
                                   // interrupted
  ASSIGN_OR_RETURN(const std::string values,
                   record_values(asker, request.options().pid(), begin_unix_ns, own.file));
  if (options.json()) return print_json(last.stats());
  return print(
      absl::StrCat(own.file, ": ", stats_text(last.stats()),
                   last.ended().empty() ? "; truncated: the last events are missing" : "; ",
                   last.ended(), "\n", values));
}

struct DumpOptions {
  std::string file;
};

absl::Status run_dump(const Options& /*options*/, const DumpOptions& own) {
  bool written = true;
  const auto put = [&](std::string_view line) {
    written = written && std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
              std::fputc('\n', stdout) != EOF;
  };
  ASSIGN_OR_RETURN(const ctf::ReadSummary summary, ctf::dump_trace_file(own.file, put));
  if (std::fflush(stdout) != 0 || !written) return cannot_write("to stdout");
  if (const std::string losses = summary.losses(); !losses.empty()) {
    std::fprintf(stderr, "memprofctl: %s: %s\n", own.file.c_str(), losses.c_str());
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- trace start, stop, list

struct TraceStartOptions {
  TraceChoice trace;
  std::uint32_t max_files = 0;
};

absl::Status run_trace_start(const Options& options, const TraceStartOptions& own) {
  ASSIGN_OR_RETURN(pb::TraceOptions trace, trace_options(options, own.trace));
  trace.set_max_files(own.max_files);
  ASSIGN_OR_RETURN(const pb::TraceInfo started, Client(options.endpoint).start_trace(trace));
  return print_trace(options, started);
}

struct TraceStopOptions {
  std::uint64_t id = 0;
};

absl::Status run_trace_stop(const Options& options, const TraceStopOptions& own) {
  ASSIGN_OR_RETURN(const pb::TraceInfo ended, Client(options.endpoint).stop_trace(own.id));
  return print_trace(options, ended);
}

absl::Status run_trace_list(const Options& options) {
  ASSIGN_OR_RETURN(const pb::ListTracesResponse traces, Client(options.endpoint).list_traces());
  if (options.json()) return print_json(traces);
  std::string out;
  for (const pb::TraceInfo& trace : traces.traces()) out += trace_line(trace);
  return print(out.empty() ? "no traces\n" : out);
}

// ---------------------------------------------------------------- events

struct EventsOptions {
  bool full_callstacks = false;
  std::uint64_t limit = 0;  // 0: none
};

absl::Status run_events(const Options& options, const EventsOptions& own) {
  Interrupt interrupt;
  pb::StreamEventsRequest request;
  ASSIGN_OR_RETURN(const int pid, running_target(options));
  request.set_pid(pid);
  ASSIGN_OR_RETURN(*request.mutable_filter(), filter_of(options.query, options.frames()));
  request.set_full_callstacks(own.full_callstacks);
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  EventLines lines(options.json());
  std::uint64_t left = own.limit;
  return client.stream_events(request, [&](const pb::StreamEventsResponse& response) {
    std::uint64_t shown = response.events_size();
    if (own.limit > 0) shown = std::min(shown, left);
    absl::Status status = print(lines.lines(response, shown));
    left -= shown;
    if (own.limit > 0 && left == 0) client.interrupt();
    return status;
  });
}

void add_trace_start(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  TraceStartOptions& own =
      line.set_up(app, "Have memprofd write a trace to its own disk", &run_trace_start);
  add_trace_choice(app, options, own.trace);
  app.add_option(
      "--max-files", own.max_files,
      "Keep the N newest files; a file that reaches --max-size is followed by a new one");
  add_format(app, options.format, {kTable, kJson});
}

void add_trace_stop(const CommandLine& line, CLI::App& app) {
  TraceStopOptions& own = line.set_up(app, "Stop a trace", &run_trace_stop);
  app.add_option("id", own.id, "ID of the trace, as `memprofctl trace list` prints it")->required();
  add_format(app, line.options().format, {kTable, kJson});
}

void add_trace_list(const CommandLine& line, CLI::App& app) {
  line.set_up(app, "List traces", &run_trace_list);
  add_format(app, line.options().format, {kTable, kJson});
}

// Refuses -o, which selects a format in all other commands.
void refuse_output(CLI::App& app) {
  // CLI11 omits the name of a hidden option from the message of a check, so check here.
  app.add_option_function<std::string>("-o,--output",
                                       [](const std::string& file) {
                                         throw CLI::ValidationError(
                                             "-o,--output",
                                             "selects a format; name the file with --out " + file);
                                       })
      ->group("");
}

}  // namespace

void add_events(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  EventsOptions& own = line.set_up(app, "Print sampled events as they happen", &run_events);
  add_running_target(app, options.query);
  add_filter(app, options.query, false);
  add_format(app, options.format, {kTable, kJson});
  app.add_flag("--callstacks", own.full_callstacks, "Print complete callstacks");
  app.add_option("-n,--limit", own.limit, "Stop after N events");
}

void add_record(const CommandLine& line, CLI::App& app) {
  RecordOptions& own = line.set_up(app, "Record a trace in Memtrace's format", &run_record);
  add_trace_choice(app, line.options(), own.trace);
  add_out(app, own.file)->required();
  refuse_output(app);
}

void add_dump(const CommandLine& line, CLI::App& app) {
  DumpOptions& own = line.set_up(app, "Print every event of a trace file", &run_dump);
  app.add_option("file", own.file, "Trace file to read")->type_name("FILE")->required();
}

void add_trace(const CommandLine& line, CLI::App& app) {
  app.description("Record traces, to a local file or on memprofd's disk");
  app.require_subcommand(1);
  add_record(line, *app.add_subcommand("record"));
  add_dump(line, *app.add_subcommand("dump"));
  add_trace_start(line, *app.add_subcommand("start"));
  add_trace_stop(line, *app.add_subcommand("stop"));
  add_trace_list(line, *app.add_subcommand("list"));
}

}  // namespace memprofd::ctl
