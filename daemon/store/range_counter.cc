#include "daemon/store/range_counter.h"

#include <algorithm>
#include <cmath>

namespace memprofd {
namespace {

double middle_ns(const HistoryWindow& window) {
  return (static_cast<double>(window.begin_ns()) + static_cast<double>(window.end_ns())) / 2;
}

void add_cell(Counters& to, const WindowCell& cell, double rate, double words) {
  if (cell.allocated > 0) to.add_allocated(cell.allocated, rate, words);
  if (cell.promoted > 0) to.promoted.add(cell.promoted, rate);
  for (const DeathCounts::Entry& death : cell.deaths) {
    to.deallocated[static_cast<int>(death.heap())].add(death.n, rate);
    to.deaths.add_code(death.code, death.n);
  }
}

void subtract_cell(Counters& from, const WindowCell& cell, double rate, double words) {
  from.allocated.subtract(cell.allocated, rate);
  from.allocated_objects = from.allocated.samples == 0
                               ? 0
                               : from.allocated_objects - cell.allocated / (rate * (words + 1));
  from.promoted.subtract(cell.promoted, rate);
  for (const DeathCounts::Entry& death : cell.deaths) {
    from.deallocated[static_cast<int>(death.heap())].subtract(death.n, rate);
    from.deaths.remove_code(death.code, death.n);
  }
}

}  // namespace

Estimate Portion::estimate() const {
  const double whole = std::round(samples);
  if (whole < 1) return {};
  return {static_cast<std::uint64_t>(whole), std::max(0.0, words), std::max(0.0, variance_words2)};
}

RangeCounter::RangeCounter(const TargetSnapshot& snapshot)
    : snapshot_(snapshot),
      view_(snapshot.history),
      begin_ns_(view_.empty() ? snapshot.attached_ns : view_.begin_ns),
      now_ns_(view_.empty() ? snapshot.time_ns : view_.newest_ns()) {
  const std::uint32_t classes = snapshot.rows.empty() ? 0 : snapshot.rows.back().id.value() + 1;
  row_of_.assign(classes, -1);
  for (std::size_t row = 0; row < snapshot.rows.size(); ++row) {
    row_of_[snapshot.rows[row].id.value()] = static_cast<int>(row);
  }
}

TimeRange RangeCounter::resolve(const TimeRange& asked) const {
  const auto limit = [&](std::uint64_t time_ns, std::uint64_t standard) {
    if (time_ns == 0 || view_.empty()) return standard;
    if (time_ns <= begin_ns_) return begin_ns_;
    return time_ns >= now_ns_ ? now_ns_ : view_.snap(time_ns);
  };
  if (asked.until_peak) {
    return {begin_ns_, view_.peak == nullptr ? now_ns_ : view_.peak->time_ns, true};
  }
  TimeRange range{limit(asked.begin_ns, begin_ns_), limit(asked.end_ns, now_ns_)};
  range.begin_ns = std::min(range.begin_ns, range.end_ns);
  return range;
}

template <typename Fn>
void RangeCounter::for_each_cell(std::uint64_t begin_ns, std::uint64_t end_ns, Fn fn) const {
  for (const HistoryWindowPtr& window : view_.cover(begin_ns, end_ns)) {
    window->for_each_cell([&](const WindowCell& cell, double rate) {
      if (const int row = row_of(cell.alloc_class); row >= 0) fn(row, cell, rate, *window);
    });
  }
}

std::vector<Counters> RangeCounter::flows(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  if (begin_ns <= begin_ns_) return flows_since_begin(end_ns);
  std::vector<Counters> result(snapshot_.rows.size());
  for_each_cell(
      begin_ns, end_ns, [&](int row, const WindowCell& cell, double rate, const HistoryWindow&) {
        add_cell(result[row], cell, rate, snapshot_.rows[row].alloc_class.size.middle_words());
      });
  return result;
}

// The oldest windows may be gone; what they held is in the totals.
std::vector<Counters> RangeCounter::flows_since_begin(std::uint64_t end_ns) const {
  std::vector<Counters> result;
  result.reserve(snapshot_.rows.size());
  for (const ProfileRow& row : snapshot_.rows) {
    Counters& counters = result.emplace_back(row.counters);
    counters.live = {};
    counters.live_objects = 0;
  }
  if (end_ns >= now_ns_) return result;
  for_each_cell(
      end_ns, now_ns_, [&](int row, const WindowCell& cell, double rate, const HistoryWindow&) {
        subtract_cell(result[row], cell, rate, snapshot_.rows[row].alloc_class.size.middle_words());
      });
  return result;
}

std::vector<Portion> RangeCounter::live_at(std::uint64_t time_ns) const {
  std::vector<Portion> result(snapshot_.rows.size());
  if (view_.peak != nullptr && time_ns == view_.peak->time_ns) {
    for (const PeakLive::Class& live : view_.peak->classes) {
      if (const int row = row_of(live.id); row >= 0) result[row].add(live.live);
    }
    return result;
  }
  for (std::size_t row = 0; row < result.size(); ++row) {
    result[row].add(snapshot_.rows[row].counters.live);
  }
  if (time_ns >= now_ns_) return result;
  for_each_cell(time_ns, now_ns_,
                [&](int row, const WindowCell& cell, double rate, const HistoryWindow&) {
                  double died = 0;
                  for (const DeathCounts::Entry& death : cell.deaths) died += death.n;
                  result[row].add(died + cell.forgotten - cell.allocated, rate);
                });
  return result;
}

std::vector<RangeCounter::Deaths> RangeCounter::deaths(std::uint64_t begin_ns, std::uint64_t end_ns,
                                                       const LifetimeSpan& span,
                                                       std::uint64_t born_after_ns) const {
  std::vector<Deaths> result(snapshot_.rows.size());
  const auto add = [](Deaths& to, const DeathCounts::Entry& death, double share, double words,
                      double variance) {
    if (share <= 0) return;
    const double n = death.n * share;
    Portion& heap = to.by_heap[static_cast<int>(death.heap())];
    heap.samples += n;
    heap.words += n * words;
    heap.variance_words2 += n * variance;
    to.counts.add_code(death.code, static_cast<std::uint32_t>(std::lround(n)));
  };
  if (whole(begin_ns, end_ns) && born_after_ns <= begin_ns_) {
    for (std::size_t row = 0; row < result.size(); ++row) {
      const Counters& all = snapshot_.rows[row].counters;
      for (const DeathCounts::Entry& death : all.deaths.entries()) {
        const Estimate& heap = all.deallocated[static_cast<int>(death.heap())];
        const auto samples = static_cast<double>(std::max<std::uint64_t>(heap.samples, 1));
        add(result[row], death,
            LifetimeHistogram::share_within(death.bucket(), span.min_ns, span.max_ns),
            heap.words / samples, heap.variance_words2 / samples);
      }
    }
    return result;
  }
  for_each_cell(begin_ns, end_ns,
                [&](int row, const WindowCell& cell, double rate, const HistoryWindow& window) {
                  const double longest =
                      born_after_ns <= begin_ns_
                          ? span.max_ns
                          : std::min(span.max_ns,
                                     middle_ns(window) - static_cast<double>(born_after_ns));
                  for (const DeathCounts::Entry& death : cell.deaths) {
                    add(result[row], death,
                        LifetimeHistogram::share_within(death.bucket(), span.min_ns, longest),
                        1 / rate, 1 / (rate * rate));
                  }
                });
  return result;
}

std::vector<Portion> RangeCounter::survivors(std::uint64_t after_ns, std::uint64_t until_ns,
                                             std::uint64_t at_ns) const {
  if (after_ns <= begin_ns_) return older_survivors(until_ns, at_ns);
  std::vector<Portion> result(snapshot_.rows.size());
  for_each_cell(after_ns, at_ns,
                [&](int row, const WindowCell& cell, double rate, const HistoryWindow& window) {
                  Portion& alive = result[row];
                  if (window.end_ns() <= until_ns) alive.add(cell.allocated, rate);
                  const double middle = middle_ns(window);
                  double gone = cell.forgotten;
                  for (const DeathCounts::Entry& death : cell.deaths) {
                    gone += death.n * LifetimeHistogram::share_within(
                                          death.bucket(), middle - static_cast<double>(until_ns),
                                          middle - static_cast<double>(after_ns));
                  }
                  if (gone >= alive.samples) {
                    alive = {};  // a session's end forgets older blocks too
                  } else if (gone > 0) {
                    alive.add(-gone, rate);
                  }
                });
  return result;
}

// Born before until_ns, alive at at_ns.
std::vector<Portion> RangeCounter::older_survivors(std::uint64_t until_ns,
                                                   std::uint64_t at_ns) const {
  std::vector<Portion> result = live_at(until_ns);
  for_each_cell(until_ns, at_ns,
                [&](int row, const WindowCell& cell, double rate, const HistoryWindow& window) {
                  double gone = cell.forgotten;
                  for (const DeathCounts::Entry& death : cell.deaths) {
                    gone += death.n * LifetimeHistogram::share_within(
                                          death.bucket(),
                                          middle_ns(window) - static_cast<double>(until_ns),
                                          std::numeric_limits<double>::infinity());
                  }
                  if (gone >= result[row].samples) {
                    result[row] = {};
                  } else if (gone > 0) {
                    result[row].add(-gone, rate);
                  }
                });
  return result;
}

}  // namespace memprofd
