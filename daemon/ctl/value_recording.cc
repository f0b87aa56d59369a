// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/value_recording.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/output.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

// Upper bound: a day of the maximum number of series is smaller.
constexpr std::streamsize kMaxBytes = 512 << 20;

// Replaces invalid values of enums in damaged files.
template <typename Enum, typename Message>
Enum enum_of(Message value, Enum last) {
  const int number = std::clamp(static_cast<int>(value) - 1, 0, static_cast<int>(last));
  return static_cast<Enum>(number);
}

std::shared_ptr<const ValueSeries> series_of(const pb::ValueSeries& message) {
  auto series = std::make_shared<ValueSeries>();
  series->kind = enum_of(message.kind(), ValueSeries::Kind::kTag);
  series->quantity = enum_of(message.quantity(), ValueQuantity::kBytes);
  series->name = message.name();
  series->unit = message.unit();
  for (const pb::ReportedLabel& label : message.labels()) {
    series->labels.emplace_back(label.key(), label.value());
  }
  return series;
}

double number_at(const google::protobuf::RepeatedField<double>& column, int i) {
  return i < column.size() ? column[i] : 0;
}

void add_windows(const pb::GetValueHistoryResponse& message, ValueHistoryView& view) {
  for (int i = 0; i < message.times_unix_ns_size(); ++i) {
    auto window = std::make_shared<ValueWindow>();
    window->end_ns = static_cast<std::uint64_t>(message.times_unix_ns(i));
    window->begin_ns = i == 0 ? window->end_ns : view.tiers[0].back()->end_ns;
    if (i > 0 && window->end_ns <= window->begin_ns) continue;
    for (const pb::ValueSeries& series : message.series()) {
      window->last.push_back(number_at(series.lasts(), i));
      window->low.push_back(number_at(series.lows(), i));
      window->high.push_back(number_at(series.highs(), i));
    }
    view.tiers[0].push_back(std::move(window));
  }
}

void add_lines(const pb::GetValueHistoryResponse& message, ValueHistoryView& view) {
  const auto& lines = message.lines().empty() ? message.pauses() : message.lines();
  for (const pb::PastLine& line : lines) {
    view.lines.push_back(std::make_shared<const ValueLine>(
        ValueLine{.kind = line.is_pause() ? ValueLine::Kind::kPause : ValueLine::Kind::kText,
                  .is_cut = line.is_cut(),
                  .number = line.number(),
                  .time_ns = static_cast<std::uint64_t>(line.time_unix_ns()),
                  .text = line.text()}));
  }
}

void add_phases(const pb::GetValueHistoryResponse& message, ValueHistoryView& view) {
  std::vector<ValueLine> ends;
  for (const pb::PhaseSpan& span : message.phases()) {
    const auto add = [&](ValueLine::Kind kind, std::int64_t time_ns) {
      if (time_ns == 0) return;
      ends.push_back(
          {.kind = kind, .time_ns = static_cast<std::uint64_t>(time_ns), .text = span.name()});
    };
    add(ValueLine::Kind::kPhaseBegins, span.begin_unix_ns());
    add(ValueLine::Kind::kPhaseEnds, span.end_unix_ns());
  }
  std::stable_sort(ends.begin(), ends.end(),
                   [](const ValueLine& a, const ValueLine& b) { return a.time_ns < b.time_ns; });
  for (ValueLine& end : ends) {
    end.number = view.phases.size();
    view.phases.push_back(std::make_shared<const ValueLine>(std::move(end)));
  }
}

}  // namespace

std::string values_file_of(const std::string& trace_file) { return trace_file + ".values"; }

absl::Status write_value_recording(const pb::GetValueHistoryResponse& values,
                                   const std::string& trace_file) {
  return write_result(values.SerializeAsString(), values_file_of(trace_file));
}

absl::StatusOr<ValueHistoryViewPtr> read_value_recording(const std::string& trace_file) {
  const std::string path = values_file_of(trace_file);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return nullptr;
  const std::streamsize bytes = file.tellg();
  std::string data;
  pb::GetValueHistoryResponse message;
  if (bytes >= 0 && bytes <= kMaxBytes) {
    data.resize(static_cast<std::size_t>(bytes));
    file.seekg(0).read(data.data(), bytes);
  }
  if (!file || bytes > kMaxBytes || !message.ParseFromString(data)) {
    return absl::DataLossError(absl::StrCat(
        path, " is not a recording of published values; remove it to continue without"));
  }
  auto view = std::make_shared<ValueHistoryView>();
  for (const pb::ValueSeries& series : message.series()) view->series.push_back(series_of(series));
  add_windows(message, *view);
  add_lines(message, *view);
  add_phases(message, *view);
  view->lost_lines = message.lost_lines();
  return view;
}

}  // namespace memprofd::ctl
