#include "daemon/ctl/selection_spec.h"

#include <algorithm>
#include <cctype>
#include <ctime>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Seconds since the Unix epoch; false when the text has not that form, all of it.
bool parse_clock(const std::string& text, const char* format, std::tm start, std::int64_t& out) {
  const char* end = ::strptime(text.c_str(), format, &start);
  if (end == nullptr || *end != '\0') return false;
  out = ::timegm(&start);
  return true;
}

absl::StatusOr<std::int64_t> parse_time(std::string_view view, std::int64_t now_ns) {
  const std::string text(view);
  if (text[0] == '-') {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(view.substr(1)));
    return now_ns - static_cast<std::int64_t>(seconds * static_cast<double>(kNsPerSecond));
  }
  double epoch_seconds = 0;
  if (text[0] == '@' && absl::SimpleAtod(text.substr(1), &epoch_seconds)) {
    return static_cast<std::int64_t>(epoch_seconds * static_cast<double>(kNsPerSecond));
  }
  const std::time_t today = now_ns / kNsPerSecond / kSecondsPerDay * kSecondsPerDay;
  std::tm midnight{};
  ::gmtime_r(&today, &midnight);
  std::int64_t seconds = 0;
  for (const char* format : {"%H:%M:%S", "%H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ"}) {
    if (parse_clock(text, format, midnight, seconds)) return seconds * kNsPerSecond;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "bad time \"", text, "\": give -10m, 14:05, 14:05:30 or 2026-01-31T14:05:30Z (UTC)"));
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
  // A range has "..", so that an '@' in a file's name does no harm.
  const std::size_t at = text.find("..") == std::string_view::npos ? text.size() : text.find('@');
  ASSIGN_OR_RETURN(selection.target, parse_target(text.substr(0, at)));
  if (at < text.size()) {
    ASSIGN_OR_RETURN(selection.range, parse_range(text.substr(at + 1), now_ns));
  }
  return selection;
}

}  // namespace memprofd::ctl
