// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_published.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

std::string seconds_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.{}f} s", seconds, seconds < 100 ? 2 : 0);
}

// The upper limit of a bucket.
std::string limit_text(const pb::DurationRange& range) {
  return std::isinf(range.high_seconds()) ? "over " + seconds_text(range.low_seconds())
                                          : seconds_text(range.high_seconds());
}

std::string durations_text(const pb::Durations& durations) {
  return fmt::format(", 50 % within {}, 90 % {}, 99 % {}", limit_text(durations.p50()),
                     limit_text(durations.p90()), limit_text(durations.p99()));
}

std::string timer_text(const pb::Reported& timer) {
  std::string text = fmt::format("{} times, {}", timer.stops(), seconds_text(timer.seconds()));
  const std::uint64_t running = timer.starts() - std::min(timer.starts(), timer.stops());
  if (timer.stops() > 0 && running == 0) {
    absl::StrAppend(&text, ", mean ",
                    seconds_text(timer.seconds() / static_cast<double>(timer.stops())));
  }
  if (timer.has_durations()) absl::StrAppend(&text, durations_text(timer.durations()));
  if (timer.max_seconds() > 0) {
    absl::StrAppend(&text, ", longest ", seconds_text(timer.max_seconds()));
  }
  if (running > 0) absl::StrAppend(&text, "; ", running, running == 1 ? " runs" : " run");
  return text;
}

std::string with_unit(const std::string& text, const pb::Reported& reported) {
  return reported.unit().empty() ? text : absl::StrCat(text, " ", printable(reported.unit()));
}

std::string text_of_value(const pb::Reported& reported) {
  const pb::Value& value = reported.value();
  std::string text = reported.is_bool() && value.kind() == pb::VALUE_KIND_INTEGER
                         ? (value.integer() != 0 ? "true" : "false")
                         : value_text(value);
  if (value.kind() != pb::VALUE_KIND_UNREAD) text = with_unit(text, reported);
  if (reported.age_seconds() >= 2) {
    absl::StrAppend(&text, ", ", seconds_text(reported.age_seconds()), " ago");
  }
  return text;
}

}  // namespace

std::string published_name(const pb::Reported& reported) {
  if (reported.labels().empty()) return printable(reported.name());
  std::vector<std::string> labels;
  for (const pb::ReportedLabel& label : reported.labels()) {
    labels.push_back(absl::StrCat(label.key(), "=", label.value()));
  }
  return printable(absl::StrCat(reported.name(), "{", absl::StrJoin(labels, ","), "}"));
}

std::string published_text(const pb::Reported& reported) {
  const bool is_unread = reported.has_value() && reported.value().kind() == pb::VALUE_KIND_UNREAD;
  const std::string changing = absl::StrCat(reported.is_changing() ? " (changing)" : "",
                                            reported.is_off() && !is_unread ? " (off)" : "");
  switch (reported.kind()) {
    case pb::REPORTED_KIND_POINT:
      return with_unit(std::to_string(reported.hits()), reported) + changing;
    case pb::REPORTED_KIND_TIMER:
    case pb::REPORTED_KIND_PHASE:
      return timer_text(reported) + changing;
    case pb::REPORTED_KIND_VALUE:
    case pb::REPORTED_KIND_TAG:
      return text_of_value(reported) + changing;
    case pb::REPORTED_KIND_REQUEST:
      return "(a request: memprofctl values call)";
    default:
      return "(unknown to this memprofctl)";
  }
}

std::string domain_name(const pb::DomainShare& share) {
  return share.is_others() ? "C code, domains from 127 on"
                           : absl::StrCat("domain ", share.domain());
}

std::string domain_text(const pb::Reported& reported, const pb::DomainShare& share) {
  pb::Reported one;
  one.set_kind(reported.kind());
  one.set_unit(reported.unit());
  one.set_hits(share.hits());
  one.set_starts(share.starts());
  one.set_stops(share.stops());
  one.set_seconds(share.seconds());
  one.set_max_seconds(share.max_seconds());
  return published_text(one);
}

std::string line_text(const pb::ReportedLine& line) {
  const std::string text = printable(line.text()) + (line.is_cut() ? ".." : "");
  const std::string what = line.phase_begins() ? fmt::format("phase {} begins", text)
                           : line.is_pause()   ? fmt::format("pause {}", text)
                           : line.phase_ends() ? fmt::format("phase {} ends", text)
                                               : text;
  return fmt::format("{} ago  {}", seconds_text(line.seconds_ago()), what);
}

}  // namespace memprofd::ctl
