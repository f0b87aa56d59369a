// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

constexpr int kMostRows = 20;

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

// "not counted: Stdlib.loop and 2 others: it loops back to its first instruction".
std::string uncounted_lines(const pb::TraceCallsResponse& calls) {
  struct Some {
    std::string first;
    std::uint64_t count = 0;
  };
  std::map<std::string, Some> by_reason;
  for (const pb::FunctionCalls& one : calls.functions()) {
    if (one.why_uncounted().empty()) continue;
    Some& some = by_reason[one.why_uncounted()];
    if (some.count++ == 0) some.first = one.function();
  }
  std::string out;
  for (const auto& [reason, some] : by_reason) {
    const std::string others =
        some.count == 1 ? "" : absl::StrCat(" and ", some.count - 1, " more");
    absl::StrAppend(&out, "  not counted: ", printable(some.first), others, ": ", printable(reason),
                    "\n");
  }
  return out;
}

}  // namespace

std::string render_calls(const pb::TraceCallsResponse& calls, const Style& style) {
  TextTable table({{"CALLS", Align::kRight}, {"A SECOND", Align::kRight}, {"FUNCTION"}});
  int rows = 0;
  int left_out = 0;
  for (const pb::FunctionCalls& one : calls.functions()) {
    if (one.calls() == 0) continue;
    if (rows == kMostRows) {
      ++left_out;
      continue;
    }
    ++rows;
    table.add_row({count_text(one.calls()), rate_text(one.calls(), calls.seconds()),
                   printable(one.function())});
  }
  std::string out = head_of(calls);
  if (rows > 0) {
    for (const std::string& line : table.lines(style.width)) {
      absl::StrAppend(&out, "  ", line, "\n");
    }
  }
  if (left_out > 0) absl::StrAppend(&out, "  and ", left_out, " more, see -o json\n");
  absl::StrAppend(&out, uncounted_lines(calls));
  if (calls.costly_functions() > 0) {
    absl::StrAppend(&out, "  ", calls.costly_functions(),
                    " of them take the program ten times as much a call as the others\n");
  }
  if (!calls.why_ended().empty()) {
    absl::StrAppend(&out, "  ended: ", printable(calls.why_ended()), "\n");
  }
  return out;
}

}  // namespace memprofd::ctl
