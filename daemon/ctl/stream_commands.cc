// SPDX-License-Identifier: Apache-2.0
// Commands about traces and events.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/progress.h"
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
        absl::StrCat(target.file, " is not a pid; give that of a target"));
  }
  ASSIGN_OR_RETURN(const QuestionTarget asked, ask(target, options.endpoint));
  return asked.pid;
}

absl::StatusOr<pb::TraceOptions> trace_options(const Options& options) {
  pb::TraceOptions trace;
  ASSIGN_OR_RETURN(const int pid, running_target(options));
  trace.set_pid(pid);
  trace.set_version(options.trace_version);
  trace.set_max_files(options.max_files);
  trace.set_heap(options.trace_heap);
  if (!options.duration.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(options.duration));
    if (seconds == 0) {
      return absl::InvalidArgumentError(
          "--duration 0 would never end: give a time above 0, or leave it out");
    }
    trace.set_max_seconds(seconds);
  }
  if (!options.max_bytes.empty()) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_size(options.max_bytes));
    trace.set_max_bytes(bytes);
  }
  return trace;
}

std::string stats_text(const pb::TraceStats& stats) {
  std::string out = absl::StrCat(format_bytes(static_cast<double>(stats.bytes())), ", ",
                                 format_count(stats.samples()), " samples, ",
                                 format_count(stats.events()), " events");
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

}  // namespace

// Writes the history from begin on, and reports the result to the user; does nothing if no values
// were published.
absl::StatusOr<std::string> record_values(Client& client, int pid, std::int64_t begin_unix_ns,
                                          const std::string& trace_file) {
  constexpr std::uint32_t kMostPoints = 10'000;
  pb::GetValueHistoryRequest request;
  request.set_pid(pid);
  request.mutable_range()->set_begin_unix_ns(begin_unix_ns);
  request.set_points(kMostPoints);
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

absl::Status run_record(const Options& options) {
  Interrupt interrupt;
  pb::RecordRequest request;
  ASSIGN_OR_RETURN(*request.mutable_options(), trace_options(options));
  const File file(std::fopen(options.trace_file.c_str(), "wb"));
  if (file == nullptr) return cannot_write(options.trace_file);
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
                                         options.trace_file, "; Ctrl-C ends it"));
    RETURN_IF_ERROR(client.record(request, [&](const pb::RecordResponse& response) {
      const std::string& data = response.data();
      if (std::fwrite(data.data(), 1, data.size(), file.get()) != data.size() ||
          std::fflush(file.get()) != 0) {
        return cannot_write(options.trace_file);
      }
      last = response;
      recording = response.recording();
      return absl::OkStatus();
    }));
  }
  Client asker(options.endpoint);  // a separate client, because the other one may have been
                                   // interrupted
  ASSIGN_OR_RETURN(const std::string values, record_values(asker, request.options().pid(),
                                                           begin_unix_ns, options.trace_file));
  if (options.json()) return print_json(last.stats());
  return print(
      absl::StrCat(options.trace_file, ": ", stats_text(last.stats()),
                   last.ended().empty() ? "; truncated: the last events are missing" : "; ",
                   last.ended(), "\n", values));
}

absl::Status run_dump(const Options& options) {
  bool written = true;
  const auto put = [&](std::string_view line) {
    written = written && std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
              std::fputc('\n', stdout) != EOF;
  };
  ASSIGN_OR_RETURN(const ctf::ReadSummary summary, ctf::dump_trace_file(options.trace_file, put));
  if (std::fflush(stdout) != 0 || !written) return cannot_write("to stdout");
  if (const std::string losses = summary.losses(); !losses.empty()) {
    std::fprintf(stderr, "memprofctl: %s: %s\n", options.trace_file.c_str(), losses.c_str());
  }
  return absl::OkStatus();
}

absl::Status run_events(const Options& options) {
  Interrupt interrupt;
  pb::StreamEventsRequest request;
  ASSIGN_OR_RETURN(const int pid, running_target(options));
  request.set_pid(pid);
  ASSIGN_OR_RETURN(*request.mutable_filter(), filter_of(options.query, options.frames()));
  request.set_full_callstacks(options.full_callstacks);
  Client client(options.endpoint);
  interrupt.on_signal([&client] { client.interrupt(); });
  EventLines lines(options.json());
  std::uint64_t left = options.event_limit;
  return client.stream_events(request, [&](const pb::StreamEventsResponse& response) {
    std::uint64_t shown = response.events_size();
    if (options.event_limit > 0) shown = std::min(shown, left);
    absl::Status status = print(lines.lines(response, shown));
    left -= shown;
    if (options.event_limit > 0 && left == 0) client.interrupt();
    return status;
  });
}

absl::Status run_trace_start(const Options& options) {
  ASSIGN_OR_RETURN(const pb::TraceOptions trace, trace_options(options));
  ASSIGN_OR_RETURN(const pb::TraceInfo started, Client(options.endpoint).start_trace(trace));
  return print_trace(options, started);
}

absl::Status run_trace_stop(const Options& options) {
  ASSIGN_OR_RETURN(const pb::TraceInfo ended,
                   Client(options.endpoint).stop_trace(options.trace_id));
  return print_trace(options, ended);
}

absl::Status run_trace_list(const Options& options) {
  ASSIGN_OR_RETURN(const pb::ListTracesResponse traces, Client(options.endpoint).list_traces());
  if (options.json()) return print_json(traces);
  std::string out;
  for (const pb::TraceInfo& trace : traces.traces()) out += trace_line(trace);
  return print(out.empty() ? "no traces\n" : out);
}

}  // namespace memprofd::ctl
