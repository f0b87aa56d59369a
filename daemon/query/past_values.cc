// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/past_values.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

TimeRange known_part(const ProfileSnapshot& target, TimeRange range) {
  if (range.until_peak && target.history.peak != nullptr) {
    return {.begin_ns = target.attached_ns, .end_ns = target.history.peak->time_ns};
  }
  // A recording may contain values from before its first and after its last block.
  const ValueHistoryView& values = *target.values;
  if (range.begin_ns == 0) range.begin_ns = std::min(target.attached_ns, values.oldest_ns());
  if (range.end_ns == 0) range.end_ns = std::max(target.now_ns(), values.newest_ns() + 1);
  range.until_peak = false;
  return range;
}

double number_at(const std::vector<double>& column, std::size_t series) {
  return series < column.size() ? column[series] : std::numeric_limits<double>::quiet_NaN();
}

PastSeries numbers_of(const std::shared_ptr<const ValueSeries>& series, std::size_t number,
                      const ValueHistoryView::Tier& windows) {
  PastSeries out{.series = series};
  for (const ValueWindowPtr& window : windows) {
    const bool is_flat = window->low.empty();
    out.lasts.push_back(number_at(window->last, number));
    out.lows.push_back(number_at(is_flat ? window->last : window->low, number));
    out.highs.push_back(number_at(is_flat ? window->last : window->high, number));
  }
  return out;
}

bool is_known(const PastSeries& series) {
  return std::any_of(series.highs.begin(), series.highs.end(),
                     [](double number) { return !std::isnan(number); });
}

// Phases with the same name; overlapping phases form one span.
struct OpenPhase {
  std::uint64_t begin_ns = 0;
  int depth = 0;
};

std::vector<PhaseSpan> all_phases(const ValueHistoryView& values) {
  std::vector<PhaseSpan> spans;
  std::map<std::string, OpenPhase> open;
  for (const ValueLinePtr& line : values.phases) {
    OpenPhase& phase = open[line->text];
    if (line->kind == ValueLine::Kind::kPhaseBegins) {
      if (phase.depth++ == 0) phase.begin_ns = line->time_ns;
    } else if (phase.depth <= 1) {
      spans.push_back({line->text, phase.depth == 0 ? 0 : phase.begin_ns, line->time_ns});
      phase.depth = 0;
    } else {
      --phase.depth;
    }
  }
  for (const auto& [name, phase] : open) {
    if (phase.depth > 0) spans.push_back({name, phase.begin_ns, 0});
  }
  return spans;
}

void add_phases(const ValueHistoryView& values, PastValues& out) {
  for (PhaseSpan& span : all_phases(values)) {
    const bool is_over = span.end_ns != 0 && span.end_ns <= out.range.begin_ns;
    if (!is_over && span.begin_ns < out.range.end_ns) out.phases.push_back(std::move(span));
  }
  std::stable_sort(out.phases.begin(), out.phases.end(),
                   [](const PhaseSpan& a, const PhaseSpan& b) { return a.begin_ns < b.begin_ns; });
  if (out.phases.size() <= PastValues::kMaxPhases) return;
  out.left_out_phases = out.phases.size() - PastValues::kMaxPhases;
  out.phases.erase(out.phases.begin(),
                   out.phases.begin() + static_cast<std::ptrdiff_t>(out.left_out_phases));
}

}  // namespace

absl::StatusOr<PastValues> past_values(const ProfileSnapshot& target, const TimeRange& range,
                                       const PastValuesQuery& query) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("name", {query.pattern}));
  if (target.values == nullptr) return PastValues{.range = range};
  PastValues out{.range = known_part(target, range)};
  const ValueHistoryView& values = *target.values;
  const ValueHistoryView::Tier windows =
      values.steps(out.range.begin_ns, out.range.end_ns, query.points);
  for (const ValueWindowPtr& window : windows) out.times_ns.push_back(window->end_ns);
  for (std::size_t i = 0; i < values.series.size(); ++i) {
    if (!patterns.empty() && !patterns.any_in(values.series[i]->full_name())) continue;
    PastSeries series = numbers_of(values.series[i], i, windows);
    if (is_known(series)) out.series.push_back(std::move(series));
  }
  add_phases(values, out);
  std::copy_if(values.lines.begin(), values.lines.end(), std::back_inserter(out.lines),
               [&](const ValueLinePtr& line) {
                 return line->time_ns >= out.range.begin_ns && line->time_ns < out.range.end_ns;
               });
  return out;
}

}  // namespace memprofd
