// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/selection_spec.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;
constexpr std::int64_t kLastSecond = std::numeric_limits<std::int64_t>::max() / kNsPerSecond - 1;

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Nanoseconds since the Unix epoch; false if the text does not have exactly this form, or the
// number does not fit.
bool parse_clock(const std::string& text, const char* format, std::tm start, std::int64_t& out) {
  const char* end = ::strptime(text.c_str(), format, &start);
  if (end == nullptr || *end != '\0') return false;
  const std::int64_t seconds = ::timegm(&start);
  out = seconds * (seconds > 0 && seconds <= kLastSecond ? kNsPerSecond : 0);
  return out > 0;
}

bool parse_epoch(const std::string& text, std::int64_t& out) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds)) return false;
  if (!(seconds >= 0 && seconds <= static_cast<double>(kLastSecond))) return false;
  out = static_cast<std::int64_t>(seconds * static_cast<double>(kNsPerSecond));
  return true;
}

absl::StatusOr<std::int64_t> parse_time(std::string_view view, std::int64_t now_ns) {
  const std::string text(view);
  if (text[0] == '-') {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(view.substr(1)));
    const auto ago_ns = static_cast<std::int64_t>(seconds * static_cast<double>(kNsPerSecond));
    return -std::max<std::int64_t>(1, ago_ns);  // 0 would mean no limit
  }
  std::int64_t ns = 0;
  if (text[0] == '@' && parse_epoch(text.substr(1), ns)) return ns;
  const std::time_t today = now_ns / kNsPerSecond / kSecondsPerDay * kSecondsPerDay;
  std::tm midnight{};
  ::gmtime_r(&today, &midnight);
  for (const char* format : {"%H:%M:%S", "%H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ"}) {
    if (parse_clock(text, format, midnight, ns)) return ns;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "bad time \"", text, "\": give -10m, 14:05, 14:05:30 or 2026-01-31T14:05:30Z (UTC)"));
}

// Position of the '@' before the range, or the text's size without a range. A range has ".." and no
// '/'; any other '@' belongs to a file name.
std::size_t find_range(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  const std::size_t at = text.find('@', slash == text.npos ? 0 : slash);
  const bool is_range = at != text.npos && text.find("..", at) != text.npos;
  return is_range ? at : text.size();
}

}  // namespace

absl::StatusOr<TargetSpec> parse_target(std::string_view text) {
  if (text.empty()) return TargetSpec{};
  if (!all_digits(text)) return TargetSpec{0, std::string(text)};
  TargetSpec target;
  if (!absl::SimpleAtoi(std::string(text), &target.pid) || target.pid == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad pid ", std::string(text), ": it is a positive number"));
  }
  return target;
}

absl::StatusOr<pb::TimeRange> parse_range(std::string_view text, std::int64_t now_ns) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad range \"", std::string(text), "\": give FROM..TO, such as -10m..-5m"));
  }
  pb::TimeRange range;
  if (const auto from = text.substr(0, dots); !from.empty()) {
    ASSIGN_OR_RETURN(const std::int64_t begin, parse_time(from, now_ns));
    range.set_begin_unix_ns(begin);
  }
  if (const auto to = text.substr(dots + 2); !to.empty()) {
    ASSIGN_OR_RETURN(const std::int64_t end, parse_time(to, now_ns));
    range.set_end_unix_ns(end);
  }
  return range;
}

absl::StatusOr<SelectionSpec> parse_selection(std::string_view text, std::int64_t now_ns) {
  SelectionSpec selection;
  const std::size_t at = find_range(text);
  ASSIGN_OR_RETURN(selection.target, parse_target(text.substr(0, at)));
  if (at < text.size()) {
    ASSIGN_OR_RETURN(selection.range, parse_range(text.substr(at + 1), now_ns));
  }
  return selection;
}

}  // namespace memprofd::ctl
