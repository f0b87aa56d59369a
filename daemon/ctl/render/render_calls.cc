// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_calls.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

constexpr int kMaxRows = 20;
constexpr const char* kTimeTitles[] = {"TIME", "P50", "P90", "P99", "WORDS", "WORDS P99", "RAISED"};

std::string count_text(std::uint64_t count) { return format_count(count); }

std::string rate_text(std::uint64_t calls, double seconds) {
  return seconds > 0 ? fmt::format("{:.3g}", static_cast<double>(calls) / seconds) : "-";
}

std::string head_of(const pb::TraceCallsResponse& calls) {
  std::uint64_t sum = 0;
  for (const pb::FunctionCalls& one : calls.functions()) sum += one.calls();
  return absl::StrCat(format_duration(calls.seconds()), ": ", count_text(sum), " calls of ",
                      calls.functions_size(),
                      calls.functions_size() == 1 ? " function" : " functions", "\n");
}

using Reason = const std::string& (pb::FunctionCalls::*)() const;

// "not counted: Stdlib.loop and 2 more: it loops back to its first instruction".
void append_left_out(const pb::TraceCallsResponse& calls, const char* what, Reason reason_of,
                     std::string& out) {
  struct Some {
    std::string first;
    std::uint64_t count = 0;
  };
  std::map<std::string, Some> by_reason;
  for (const pb::FunctionCalls& one : calls.functions()) {
    if ((one.*reason_of)().empty()) continue;
    Some& some = by_reason[(one.*reason_of)()];
    if (some.count++ == 0) some.first = one.function();
  }
  for (const auto& [reason, some] : by_reason) {
    const std::string others =
        some.count == 1 ? "" : absl::StrCat(" and ", some.count - 1, " more");
    absl::StrAppend(&out, "  not ", what, ": ", printable(some.first), others, ": ",
                    printable(reason), "\n");
  }
}

// Shows the middle of the bucket.
std::string duration_text(bool known, const pb::CallDuration& duration) {
  if (!known) return "-";
  if (!std::isfinite(duration.high_seconds())) {
    return absl::StrCat("> ", format_duration(duration.low_seconds()));
  }
  return format_duration((duration.low_seconds() + duration.high_seconds()) / 2);
}

// The mean number of words of the calls whose words are known.
std::string mean_words(const pb::CallTimes& times) {
  const std::uint64_t ended = times.returned() + times.tail_calls();
  if (ended <= times.unsized()) return "-";
  const auto known = static_cast<double>(ended - times.unsized());
  return fmt::format("{:.4g}", static_cast<double>(times.words()) / known);
}

// Exact up to 8, else the middle of the bucket.
std::string words_text(bool known, const pb::CallWords& words) {
  if (!known) return "-";
  if (words.high() == std::numeric_limits<std::uint64_t>::max()) {
    return absl::StrCat("> ", count_text(words.low()));
  }
  return count_text(words.low() + (words.high() - words.low()) / 2);
}

std::vector<std::string> time_cells(const pb::FunctionCalls& one) {
  if (!one.has_times()) return std::vector<std::string>(std::size(kTimeTitles), "-");
  const pb::CallTimes& times = one.times();
  return {format_duration(times.seconds()),
          duration_text(times.has_p50(), times.p50()),
          duration_text(times.has_p90(), times.p90()),
          duration_text(times.has_p99(), times.p99()),
          mean_words(times),
          words_text(times.has_words_p99(), times.words_p99()),
          count_text(times.raised())};
}

std::vector<Column> columns(bool with_time) {
  std::vector<Column> out = {{"CALLS", Align::kRight}, {"A SECOND", Align::kRight}};
  for (const char* title : kTimeTitles) {
    if (with_time) out.push_back({title, Align::kRight});
  }
  out.push_back({"FUNCTION"});
  return out;
}

void append_table(const pb::TraceCallsResponse& calls, const Style& style, std::string& out) {
  TextTable table(columns(calls.with_time()));
  int rows = 0;
  int left_out = 0;
  for (const pb::FunctionCalls& one : calls.functions()) {
    if (one.calls() == 0) continue;
    if (++rows > kMaxRows) {
      ++left_out;
      continue;
    }
    std::vector<std::string> cells = {count_text(one.calls()),
                                      rate_text(one.calls(), calls.seconds())};
    if (calls.with_time()) {
      for (std::string& cell : time_cells(one)) cells.push_back(std::move(cell));
    }
    cells.push_back(printable(one.function()));
    table.add_row(std::move(cells));
  }
  if (rows == 0) return;
  for (const std::string& line : table.lines(style.width)) {
    absl::StrAppend(&out, "  ", line, "\n");
  }
  if (left_out > 0) absl::StrAppend(&out, "  and ", left_out, " more, see -o json\n");
}

// Calls of all functions that have no measured time.
void append_unknown(const pb::TraceCallsResponse& calls, std::string& out) {
  std::uint64_t running = 0, lost = 0, unsized = 0;
  for (const pb::FunctionCalls& one : calls.functions()) {
    running += one.times().running();
    lost += one.times().lost();
    unsized += one.times().unsized();
  }
  if (running > 0) {
    absl::StrAppend(&out, "  ", count_text(running), " calls have not returned\n");
  }
  if (lost > 0) absl::StrAppend(&out, "  ", count_text(lost), " calls were lost\n");
  if (unsized > 0) {
    absl::StrAppend(&out, "  ", count_text(unsized),
                    " calls have ended with an unknown number of words\n");
  }
  absl::StrAppend(&out, "  P50, P90 and P99 are known within 13 %; times include the probes; ",
                  "WORDS are the mean of a call\n");
}

}  // namespace

std::string render_calls(const pb::TraceCallsResponse& calls, const Style& style) {
  std::string out = head_of(calls);
  append_table(calls, style, out);
  if (calls.with_time()) append_unknown(calls, out);
  append_left_out(calls, "counted", &pb::FunctionCalls::why_uncounted, out);
  append_left_out(calls, "timed", &pb::FunctionCalls::why_untimed, out);
  if (calls.costly_functions() > 0) {
    absl::StrAppend(&out, "  ", calls.costly_functions(),
                    " of them cost the program ten times as much per call as the others\n");
  }
  if (!calls.why_ended().empty()) {
    absl::StrAppend(&out, "  ended: ", printable(calls.why_ended()), "\n");
  }
  return out;
}

}  // namespace memprofd::ctl
