// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/series.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "daemon/query/cell_measure.h"
#include "daemon/query/range_counter.h"
#include "daemon/query/select.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr int kNoColumn = -1;

struct Value {
  double samples = 0;
  double sum = 0;
  double variance = 0;
  double skew = 0;

  void add(double n, const SampleValue& each) {
    samples += n;
    sum += n * each.value;
    variance += n * each.variance;
    skew += n * each.skew;
  }
  Limits limits(double unseen) const {
    const bool none = samples < 0.5;
    return none ? limits_of(0, 0, 0, unseen) : limits_of(std::max(0.0, sum), variance, skew, 0);
  }
};

// A sum without its error: ranking needs nothing else.
struct PlainSum {
  double sum = 0;

  void add(double n, const SampleValue& each) { sum += n * each.value; }
};

// The value that one unseen sample would add.
double unseen_value(double words, Unit unit) {
  return unit == Unit::kBytes    ? words * kBytesPerWord
         : unit == Unit::kBlocks ? words / kSmallestBlockWords
                                 : 1;
}

class SeriesMaker {
 public:
  SeriesMaker(const ProfileSnapshot& snapshot, const TargetProfile& profile,
              const SeriesQuery& query)
      : snapshot_(snapshot),
        query_(query),
        measure_(measure_row(query.measure)),
        unseen_(unseen_value(profile.unseen.of(measure_.blocks), measure_.unit)),
        counter_(snapshot),
        range_(profile.range),
        frames_(profile),
        grouper_(frames_, query.group_by),
        group_of_row_(snapshot.rows.size(), kNoColumn) {
    for (const ProfileRow& row : profile.rows) {
      group_of_row_[counter_.row_of(row.id)] =
          static_cast<int>(grouper_.group_of(row.alloc_class, *row.callstack));
    }
    steps_ = counter_.steps(range_.begin_ns, range_.end_ns, query_.points);
  }

  SeriesAnswer make() {
    const std::vector<std::size_t> chosen = choose();
    SeriesAnswer answer{.range = range_};
    std::vector<int> column(grouper_.size(), static_cast<int>(chosen.size()));  // the last: other
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      column[chosen[i]] = static_cast<int>(i);
      answer.series.push_back({.name = grouper_.name(chosen[i])});
    }
    for_each_point<Value>(
        column, chosen.size() + 1, [&](const SeriesPoint& point, const auto& values) {
          answer.points.push_back(point);
          for (std::size_t i = 0; i < values.size(); ++i) {
            Series& series = i < chosen.size() ? answer.series[i] : answer.other;
            series.values.push_back(scaled(std::max(0.0, values[i].sum), point));
            series.stderrs.push_back(scaled(std::sqrt(std::max(0.0, values[i].variance)), point));
            series.limits.push_back(values[i].limits(unseen_).scaled(scaled(1, point)));
          }
        });
    return answer;
  }

 private:
  using Windows = HistoryView::Tier;

  static std::uint64_t length_ns(const Windows& step) {
    return step.back()->end_ns() - step.front()->begin_ns();
  }

  double scaled(double value, const SeriesPoint& point) const {
    return !measure_.is_flow() || point.seconds <= 0 ? value : value / point.seconds;
  }

  // Groups by their mean, largest first, ties by name.
  std::vector<std::size_t> choose() {
    if (query_.limit == 0) return {};
    std::vector<int> column(grouper_.size());
    std::iota(column.begin(), column.end(), 0);
    std::vector<double> area(grouper_.size());
    for_each_point<PlainSum>(column, column.size(),
                             [&](const SeriesPoint& point, const auto& values) {
                               const double weight = measure_.is_flow() ? 1 : point.seconds;
                               for (std::size_t i = 0; i < values.size(); ++i)
                                 area[i] += values[i].sum * weight;
                             });
    return grouper_.largest(area, query_.limit);
  }

  // Calls fn(point, values by column) for each step.
  template <typename Sum, typename Fn>
  void for_each_point(const std::vector<int>& column, std::size_t columns, Fn fn) {
    std::vector<Sum> values(columns);
    const std::vector<int> by_class = columns_of_classes(column);
    if (!measure_.is_flow()) add_start(column, values);
    for (const Windows& step : steps_) {
      if (measure_.is_flow()) values.assign(columns, {});
      for (const HistoryWindowPtr& window : step) add_window(*window, by_class, values);
      const HistoryWindow& last = *step.back();
      fn(SeriesPoint{last.end_ns(), static_cast<double>(length_ns(step)) / 1e9, last.at_end()},
         values);
    }
  }

  // The column of each class, kNoColumn for those that do not count.
  std::vector<int> columns_of_classes(const std::vector<int>& column) const {
    std::vector<int> result(snapshot_.rows.empty() ? 0 : snapshot_.rows.back().id.value() + 1,
                            kNoColumn);
    for (std::size_t row = 0; row < snapshot_.rows.size(); ++row) {
      if (group_of_row_[row] == kNoColumn) continue;
      result[snapshot_.rows[row].id.value()] = column[group_of_row_[row]];
    }
    return result;
  }

  // column: by class.
  template <typename Sum>
  void add_window(const HistoryWindow& window, const std::vector<int>& column,
                  std::vector<Sum>& values) const {
    window.for_each_count([&](const WindowCell& cell, double rate) {
      const std::uint32_t id = cell.alloc_class.value();
      if (id >= column.size() || column[id] == kNoColumn) return;
      const int row = counter_.row_of(cell.alloc_class);
      values[column[id]].add(cell_samples(cell, measure_.blocks),
                             value_of(row, counter_.weight(row, rate)));
    });
  }

  SampleValue value_of(int row, const SampleWeight& each) const {
    return sample_value(snapshot_.rows[row].alloc_class, each, measure_.unit);
  }

  template <typename Sum>
  void add_start(const std::vector<int>& column, std::vector<Sum>& values) const {
    const std::vector<Portion> live = counter_.live_at(range_.begin_ns);
    for (std::size_t row = 0; row < live.size(); ++row) {
      if (group_of_row_[row] == kNoColumn || live[row].samples <= 0) continue;
      const SampleWeight each = {live[row].words / live[row].samples,
                                 live[row].variance_words2 / live[row].samples,
                                 live[row].skew_words3 / live[row].samples};
      values[column[group_of_row_[row]]].add(live[row].samples,
                                             value_of(static_cast<int>(row), each));
    }
  }

  const ProfileSnapshot& snapshot_;
  const SeriesQuery& query_;
  const MeasureRow& measure_;
  const double unseen_;
  const RangeCounter counter_;
  const TimeRange range_;
  VisibleFrames frames_;
  Grouper grouper_;
  std::vector<int> group_of_row_;  // by row of the snapshot
  std::vector<Windows> steps_;     // one per point
};

}  // namespace

absl::StatusOr<SeriesAnswer> history_series(const ProfileSnapshot& snapshot, const TimeRange& range,
                                            const Filter& filter, const SeriesQuery& query) {
  RETURN_IF_ERROR(check_summable(query.measure));
  if (!filter.lifetime.takes_all()) {
    return absl::InvalidArgumentError("the history has no lifetimes; omit the lifetime filters");
  }
  // Selects all rows of the target, because it needs blocks that died before the range's end.
  ASSIGN_OR_RETURN(TargetProfile profile, select(snapshot, {}, filter));
  profile.range = RangeCounter(snapshot).resolve(range);
  return SeriesMaker(snapshot, profile, query).make();
}

}  // namespace memprofd
