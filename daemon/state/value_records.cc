// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/value_records.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Larger than any text in a program's registry.
constexpr std::size_t kMaxText = 4096;
constexpr int kMaxLabels = 256;

template <typename Column>
void put_column(const std::vector<double>& from, Column& out) {
  out.Add(from.begin(), from.end());
}

template <typename Column>
std::vector<double> get_column(const Column& column) {
  return {column.begin(), column.end()};
}

void put_series(const ValueSeries& series, state::ValueSeries& out) {
  out.set_kind(static_cast<std::int32_t>(series.kind));
  out.set_quantity(static_cast<std::int32_t>(series.quantity));
  out.set_name(series.name);
  out.set_unit(series.unit);
  for (const auto& [label, value] : series.labels) {
    out.add_labels(label);
    out.add_labels(value);
  }
}

void put_line(const ValueLine& line, state::ValueLine& out) {
  out.set_kind(static_cast<std::int32_t>(line.kind));
  out.set_is_cut(line.is_cut);
  out.set_number(line.number);
  out.set_time_ns(line.time_ns);
  out.set_text(line.text);
}

absl::Status put_windows(const ValueHistoryView& values, int tier, WrittenValues& written,
                         state::Record& out,
                         const std::function<absl::Status(std::size_t)>& added) {
  const std::size_t all = values.tiers[tier].size();
  const std::size_t ended = tier == 0 && values.unfinished ? all - 1 : all;
  for (std::size_t i = 0; i < ended; ++i) {
    const ValueWindow& window = *values.tiers[tier][i];
    if (window.end_ns <= written.ends_ns[tier]) continue;
    state::ValueWindow& message = *out.add_value_windows();
    message.set_tier(static_cast<std::uint32_t>(tier));
    message.set_begin_ns(window.begin_ns);
    message.set_end_ns(window.end_ns);
    put_column(window.last, *message.mutable_last());
    put_column(window.low, *message.mutable_low());
    put_column(window.high, *message.mutable_high());
    written.ends_ns[tier] = window.end_ns;
    RETURN_IF_ERROR(added(window.memory_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status put_values(const ValueHistoryView& values, WrittenValues& written, state::Record& out,
                        const std::function<absl::Status(std::size_t)>& added) {
  for (; written.series < values.series.size(); ++written.series) {
    const ValueSeries& series = *values.series[written.series];
    put_series(series, *out.add_value_series());
    RETURN_IF_ERROR(added(series.memory_bytes()));
  }
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    RETURN_IF_ERROR(put_windows(values, tier, written, out, added));
  }
  for (const auto* lines : {&values.lines, &values.phases}) {
    for (const ValueLinePtr& line : *lines) {
      if (line->number < written.next_line) continue;
      put_line(*line, *out.add_value_lines());
      RETURN_IF_ERROR(added(sizeof *line + line->text.size()));
    }
  }
  written.next_line = values.next_line;
  out.set_value_next_line(values.next_line);
  out.set_value_lost_lines(values.lost_lines);
  return absl::OkStatus();
}

void StoredValues::add(const state::Record& record) {
  for (const state::ValueSeries& series : record.value_series()) add_series(series);
  for (const state::ValueWindow& window : record.value_windows()) add_window(window);
  for (const state::ValueLine& line : record.value_lines()) add_line(line);
  view_.next_line = std::max(view_.next_line, record.value_next_line());
  view_.lost_lines = std::max(view_.lost_lines, record.value_lost_lines());
}

// An invalid series keeps its place, because windows refer to it.
void StoredValues::add_series(const state::ValueSeries& message) {
  if (view_.series.size() >= ValueHistory::kMaxSeries) return;
  auto series = std::make_shared<ValueSeries>();
  const bool makes_sense = message.kind() >= 0 &&
                           message.kind() <= static_cast<int>(ValueSeries::Kind::kTag) &&
                           message.quantity() >= 0 && message.quantity() < kValueQuantities &&
                           message.name().size() <= kMaxText && message.unit().size() <= kMaxText &&
                           message.labels_size() <= kMaxLabels;
  if (makes_sense) {
    series->kind = static_cast<ValueSeries::Kind>(message.kind());
    series->quantity = static_cast<ValueQuantity>(message.quantity());
    series->name = message.name();
    series->unit = message.unit();
    for (int i = 0; i + 1 < message.labels_size(); i += 2) {
      series->labels.emplace_back(message.labels(i).substr(0, kMaxText),
                                  message.labels(i + 1).substr(0, kMaxText));
    }
  }
  view_.series.push_back(std::move(series));
}

void StoredValues::add_window(const state::ValueWindow& message) {
  constexpr int kMax = static_cast<int>(ValueHistory::kMaxSeries);
  if (message.tier() >= kHistoryTiers || message.begin_ns() > message.end_ns() ||
      message.last_size() > kMax || message.low_size() > kMax ||
      message.low_size() != message.high_size()) {
    return;
  }
  ValueHistoryView::Tier& tier = view_.tiers[message.tier()];
  if (!tier.empty() && tier.back()->end_ns > message.begin_ns()) return;
  tier.push_back(
      std::make_shared<const ValueWindow>(ValueWindow{.begin_ns = message.begin_ns(),
                                                      .end_ns = message.end_ns(),
                                                      .last = get_column(message.last()),
                                                      .low = get_column(message.low()),
                                                      .high = get_column(message.high())}));
}

void StoredValues::add_line(const state::ValueLine& message) {
  if (message.kind() < 0 || message.kind() > static_cast<int>(ValueLine::Kind::kPause) ||
      message.text().size() > kMaxText) {
    return;
  }
  const auto kind = static_cast<ValueLine::Kind>(message.kind());
  const bool is_of_phase =
      kind == ValueLine::Kind::kPhaseBegins || kind == ValueLine::Kind::kPhaseEnds;
  auto& lines = is_of_phase ? view_.phases : view_.lines;
  if (!lines.empty() && lines.back()->number >= message.number()) return;
  lines.push_back(std::make_shared<const ValueLine>(ValueLine{.kind = kind,
                                                              .is_cut = message.is_cut(),
                                                              .number = message.number(),
                                                              .time_ns = message.time_ns(),
                                                              .text = message.text()}));
}

ValueHistoryViewPtr StoredValues::view() const {
  const bool is_empty = view_.series.empty() && view_.lines.empty() && view_.phases.empty();
  return is_empty ? nullptr : std::make_shared<const ValueHistoryView>(view_);
}

}  // namespace memprofd
