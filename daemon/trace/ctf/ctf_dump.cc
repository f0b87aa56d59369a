// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_dump.h"

#include <utility>

#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"
#include "fmt/format.h"

namespace memprofd::ctf {
namespace {

std::string_view name_of(Source source) {
  switch (source) {
    case Source::kMinor:
      return "minor";
    case Source::kMajor:
      return "major";
    case Source::kExternal:
      return "external";
  }
  return "?";
}

}  // namespace

std::string to_string(const Location& location) {
  return fmt::format("{}@{}:{}:{}-{}", printable(location.function), printable(location.file),
                     location.line, location.start_column, location.end_column);
}

void Dumper::on_info(const TraceInfo& info) {
  start_us_ = info.start_time_us;
  line_ =
      fmt::format("# Memtrace v{}, {} samples per word, {}, pid {} on {}", version_,
                  info.sampling_rate, printable(info.executable), info.pid, printable(info.host));
  if (!info.ocamlrunparam.empty()) {
    line_ += fmt::format(", OCAMLRUNPARAM={}", printable(info.ocamlrunparam));
  }
  if (!info.context.empty()) line_ += fmt::format(", {}", printable(info.context));
  sink_(line_);
}

void Dumper::on_location(std::uint64_t code, std::span<const Location> locations) {
  std::string text;
  for (const Location& location : locations) text += " " + to_string(location);
  if (locations.empty()) text = fmt::format(" {:#x}", code);
  texts_[code] = std::move(text);
}

// The difference is signed: a damaged file may have events before its start.
void Dumper::begin_line(std::uint64_t time_us, std::string_view what, std::uint64_t id,
                        std::uint16_t domain) {
  const bool before = time_us < start_us_;
  const std::uint64_t delta = before ? start_us_ - time_us : time_us - start_us_;
  line_.clear();
  line_ += fmt::format("{}{}.{:06} {} {}", before ? '-' : '+', delta / 1'000'000, delta % 1'000'000,
                       what, id);
  if (version_ >= kVersionDomains) {
    line_ += fmt::format(" domain {}", domain);
  }
}

void Dumper::on_alloc(const Alloc& event) {
  begin_line(event.time_us, "alloc", event.id, event.domain);
  line_ += fmt::format(" {} {} sample{} {} word{}:", name_of(event.source), event.n_samples,
                       event.n_samples == 1 ? "" : "s", event.length_words,
                       event.length_words == 1 ? "" : "s");
  if (event.callstack.empty()) line_ += " unknown";
  for (const std::uint64_t code : event.callstack) line_ += texts_[code];
  sink_(line_);
}

void Dumper::put(const BlockEvent& event, std::string_view what) {
  begin_line(event.time_us, what, event.id, event.domain);
  sink_(line_);
}

absl::StatusOr<ReadSummary> dump_trace_file(const std::string& path, Dumper::LineSink sink) {
  ASSIGN_OR_RETURN(Reader reader, Reader::open(path));
  Dumper dumper(std::move(sink), reader.version());
  return reader.read(dumper);
}

}  // namespace memprofd::ctf
