// SPDX-License-Identifier: Apache-2.0
// Values over time as messages, and texts that name the requests for them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/query_convert.h"
#include "daemon/export/api/values_service.h"
#include "daemon/query/past_values.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

pb::ValueSeries to_proto(const PastSeries& past) {
  pb::ValueSeries out;
  out.set_kind(static_cast<pb::ReportedKind>(static_cast<int>(past.series->kind) + 1));
  out.set_quantity(static_cast<pb::ValueQuantity>(static_cast<int>(past.series->quantity) + 1));
  out.set_name(valid_utf8(past.series->name));
  put_labels(past.series->labels, *out.mutable_labels());
  out.set_unit(valid_utf8(past.series->unit));
  out.mutable_lasts()->Add(past.lasts.begin(), past.lasts.end());
  out.mutable_lows()->Add(past.lows.begin(), past.lows.end());
  out.mutable_highs()->Add(past.highs.begin(), past.highs.end());
  return out;
}

pb::PastLine to_proto(const ValueLine& line) {
  pb::PastLine out;
  out.set_number(line.number);
  out.set_time_unix_ns(static_cast<std::int64_t>(line.time_ns));
  out.set_text(valid_utf8(line.text));
  out.set_is_cut(line.is_cut);
  out.set_is_pause(line.kind == ValueLine::Kind::kPause);
  return out;
}

pb::GetValueHistoryResponse to_proto(const PastValues& past, bool with_lines) {
  pb::GetValueHistoryResponse out;
  for (const std::uint64_t time_ns : past.times_ns) {
    out.add_times_unix_ns(static_cast<std::int64_t>(time_ns));
  }
  for (const PastSeries& series : past.series) *out.add_series() = to_proto(series);
  for (const PhaseSpan& phase : past.phases) {
    pb::PhaseSpan& to = *out.add_phases();
    to.set_name(valid_utf8(phase.name));
    to.set_begin_unix_ns(static_cast<std::int64_t>(phase.begin_ns));
    to.set_end_unix_ns(static_cast<std::int64_t>(phase.end_ns));
  }
  out.set_left_out_phases(past.left_out_phases);
  for (const ValueLinePtr& line : past.lines) {
    if (line->kind == ValueLine::Kind::kPause) *out.add_pauses() = to_proto(*line);
    if (with_lines) *out.add_lines() = to_proto(*line);
  }
  *out.mutable_range() = to_proto(past.range);
  return out;
}

}  // namespace

std::string name_of(const pb::AdjustRequest& request) {
  std::string name = absl::StrCat("adjust '", request.pattern(), "'");
  for (const pb::ReportedLabel& label : request.labels()) {
    absl::StrAppend(&name, " {", label.key(), "=", label.value(), "}");
  }
  std::string what = !request.has_enabled() ? "" : request.enabled() ? "on" : "off";
  if (request.has_period_ms()) {
    absl::StrAppend(&what, what.empty() ? "" : ", ", "period ", request.period_ms(), " ms");
  }
  return printable(absl::StrCat(name, " (", what, ")"));
}

std::string name_of(const pb::KeepValuesRequest& request) {
  return printable(
      absl::StrCat(request.forget() ? "forget" : "keep", " values '", request.pattern(), "'"));
}

absl::StatusOr<pb::GetValueHistoryResponse> value_history(
    const ProfileSnapshot& target, const pb::GetValueHistoryRequest& request) {
  ASSIGN_OR_RETURN(const TimeRange range, from_proto(request.range(), target.now_ns()));
  PastValuesQuery query{.pattern = request.pattern()};
  if (request.points() > 0) query.points = std::min(request.points(), kMaxPoints);
  ASSIGN_OR_RETURN(const PastValues past, past_values(target, range, query));
  pb::GetValueHistoryResponse response = to_proto(past, request.with_lines());
  if (target.values == nullptr) return response;
  response.set_oldest_unix_ns(static_cast<std::int64_t>(target.values->oldest_ns()));
  response.set_lost_lines(target.values->lost_lines);
  response.set_refused_series(target.values->refused);
  return response;
}

}  // namespace memprofd
