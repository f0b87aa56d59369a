// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/range_counter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/history/history_merge.h"
#include "daemon/model/measure.h"
#include "daemon/query/cell_measure.h"
#include "daemon/query/range.h"

namespace memprofd {
namespace {

using Shares = std::array<ShareRange, LifetimeHistogram::kBuckets>;

template <typename Fn>
Shares shares(Fn of_bucket) {
  Shares result;
  for (int bucket = 0; bucket < LifetimeHistogram::kBuckets; ++bucket) {
    result[bucket] = of_bucket(bucket);
  }
  return result;
}

// The share of a window's deaths in this bucket whose blocks were born after time_ns and lived for
// a time within the span: the mean over all times of death.
double share_born_inside(int bucket, const HistoryWindow& window, std::uint64_t time_ns,
                         const LifetimeSpan& span) {
  const double oldest = ns_between(time_ns, window.end_ns());
  const double from = std::max(ns_between(time_ns, window.begin_ns()), span.min_ns);
  if (from >= oldest) return 0;
  const double to = std::clamp(span.max_ns, from, oldest);
  const double between = LifetimeHistogram::mean_share_below(bucket, from, to) * (to - from);
  const double beyond = LifetimeHistogram::share_within(bucket, 0, span.max_ns) * (oldest - to);
  const double below = LifetimeHistogram::share_within(bucket, 0, span.min_ns) * (oldest - from);
  return std::max(0.0, between + beyond - below) / ns_between(window.begin_ns(), window.end_ns());
}

double shortest_ns(int bucket) {
  return bucket == 0 ? 0 : LifetimeHistogram::upper_bound_ns(bucket - 1);
}
double longest_ns(int bucket) { return LifetimeHistogram::upper_bound_ns(bucket); }

// Makes the limits contain the share, from which rounding may separate them.
ShareRange range_of(double share, double least, double most) {
  return {share, std::clamp(least, 0.0, share), std::max(most, share)};
}

// The share of a window's deaths that were born before a time, if all lived that long: every time
// of death in the window is equally likely.
double share_born_before_at(double lifetime_ns, const HistoryWindow& window,
                            std::uint64_t time_ns) {
  const double first = ns_between(time_ns, window.begin_ns());
  const double last = ns_between(time_ns, window.end_ns());
  return std::clamp((lifetime_ns - first) / (last - first), 0.0, 1.0);
}

ShareRange range_born_before(int bucket, const HistoryWindow& window, std::uint64_t time_ns) {
  return range_of(share_born_before(bucket, window, time_ns),
                  share_born_before_at(shortest_ns(bucket), window, time_ns),
                  share_born_before_at(longest_ns(bucket), window, time_ns));
}

ShareRange range_born_between(int bucket, const HistoryWindow& window, std::uint64_t after_ns,
                              std::uint64_t until_ns) {
  const ShareRange after = range_born_before(bucket, window, after_ns);
  const ShareRange until = range_born_before(bucket, window, until_ns);
  return range_of(std::max(0.0, until.share - after.share), until.least - after.most,
                  std::min(1.0, until.most - after.least));
}

// The shares of a bucket's lifetimes within the span: all or none of a bucket that the span cuts.
ShareRange range_within(int bucket, const LifetimeSpan& span) {
  const double shortest = shortest_ns(bucket), longest = longest_ns(bucket);
  const bool all = span.min_ns <= shortest && longest <= span.max_ns;
  const bool any = span.min_ns < longest && shortest < span.max_ns;
  return range_of(LifetimeHistogram::share_within(bucket, span.min_ns, span.max_ns), all ? 1 : 0,
                  any ? 1 : 0);
}

double followed(const WindowCell& cell) {
  return static_cast<double>(cell.allocated) - cell.never_followed;
}

// A share of the deaths in a cell.
struct Taken {
  double samples = 0;
  double squares = 0;  // sum of samples times share
  double fewer = 0;    // samples by which it may be too large, or too small (ShareRange)
  double more = 0;
};
Taken share_of(const WindowCell& cell, const Shares& shares) {
  Taken taken;
  for (const DeathCounts::Entry& death : cell.deaths) {
    const auto& [share, least, most] = shares[death.bucket()];
    const auto n = static_cast<double>(death.n);
    taken.samples += n * share;
    taken.squares += n * share * share;
    taken.fewer += n * (share - least);
    taken.more += n * (most - share);
  }
  return taken;
}

// For each heap: the ratio of the variance of its deaths to the squared weights of their samples.
// It is 1 for samples of words at one rate, larger for several rates, and smaller for blocks that
// count once.
std::array<double, kHeaps> variance_by_squares(const Counters& counters) {
  std::array<double, kHeaps> alike{};
  for (const DeathCounts::Entry& death : counters.deaths.entries()) {
    alike[static_cast<int>(death.heap())] +=
        death.words * death.words / static_cast<double>(death.n);
  }
  std::array<double, kHeaps> result{};
  for (int heap = 0; heap < kHeaps; ++heap) {
    const double all = counters.deallocated[heap].variance_words2;
    result[heap] = alike[heap] > 0 ? all / alike[heap] : 0;
  }
  return result;
}

// Reads the deaths of a heap if any of its buckets has a share.
DeathsToRead deaths_to_read(const Shares& shares, const LongestBuckets& longest) {
  const auto up_to = [&](int last) {
    return std::any_of(shares.begin(), shares.begin() + last + 1,
                       [](const ShareRange& x) { return x.most > 0; });
  };
  return {up_to(longest[0]), up_to(longest[1])};
}

void add_cell(Counters& to, const WindowCell& cell, const SampleWeight& each, double block_words,
              double squares_each) {
  if (cell.allocated > 0) to.add_allocated(cell.allocated, each, block_words);
  if (cell.promoted > 0) to.promoted.add(cell.promoted, each);
  for (int heap = 0; heap < kHeaps; ++heap) {
    if (cell.died[heap] > 0) to.deallocated[heap].add(cell.died[heap], each);
  }
  to.deaths.add_codes(cell.deaths, each.words, squares_each);
  to.forgotten.add_codes(cell.ages, each.words, squares_each);
}

// The variance of a share of n samples for a known n: the variance of the samples themselves plus,
// doubled to be conservative, the variance of which samples belong to the share.
//
//   n (share^2 v + 2 share (1 - share) w^2)      w: words of a sample, v: its variance
double variance_of(const Taken& part, const SampleWeight& each) {
  return part.squares * each.variance_words2 +
         2 * (part.samples - part.squares) * each.words * each.words;
}

// Subtracts the died shares and the cell's forgotten blocks. The portion becomes empty if more
// samples are forgotten than remain, because the end of a session forgets older blocks too.
void take(Portion& from, const Taken& died, const WindowCell& cell, const SampleWeight& each) {
  from.samples -= died.samples;
  from.words -= died.samples * each.words;
  const double variance = (2 * died.samples - died.squares) * each.variance_words2 -
                          2 * (died.samples - died.squares) * each.words * each.words;
  from.variance_words2 -= variance;
  from.skew_words3 -= variance * each.grain();
  from.divided_less_words += died.more * each.words;
  from.divided_more_words += died.fewer * each.words;
  const auto forgotten = static_cast<double>(cell.forgotten);
  if (forgotten == 0) return;
  if (forgotten >= from.samples) {
    from = {};
  } else {
    from.add(-forgotten, each);
  }
}

void subtract_cell(Counters& from, const WindowCell& cell, const SampleWeight& each,
                   double block_words) {
  from.remove_allocated(cell.allocated, each, block_words);
  from.promoted.subtract(cell.promoted, each);
  for (const DeathCounts::Entry& death : cell.deaths) {
    from.deallocated[static_cast<int>(death.heap())].subtract(death.n, each);
    from.deaths.remove_code(death.code, death.n, each.words);
  }
  for (const AgeCounts::Entry& age : cell.ages) {
    from.forgotten.remove_code(age.code, age.n, each.words);
  }
}

}  // namespace

double share_born_before(int bucket, const HistoryWindow& window, std::uint64_t time_ns) {
  return 1 - LifetimeHistogram::mean_share_below(bucket, ns_between(time_ns, window.begin_ns()),
                                                 ns_between(time_ns, window.end_ns()));
}

Estimate Portion::estimate(SampleRounding& rounding) const {
  constexpr double kNothing = 1e-6;  // samples; rounding error of a difference
  if (samples < kNothing || words <= 0) return {};
  return {rounding.whole(samples),
          words,
          std::max(0.0, variance_words2),
          std::max(0.0, skew_words3),
          static_cast<float>(std::min(divided_less_words, words)),
          static_cast<float>(divided_more_words)};
}

RangeCounter::RangeCounter(const ProfileSnapshot& snapshot, VarianceModel variances)
    : snapshot_(snapshot),
      view_(snapshot.history),
      begin_ns_(snapshot.begin_ns()),
      now_ns_(snapshot.now_ns()),
      variances_(variances) {
  const std::uint32_t classes = snapshot.rows.empty() ? 0 : snapshot.rows.back().id.value() + 1;
  row_of_.assign(classes, -1);
  classes_.reserve(snapshot.rows.size());
  for (std::size_t row = 0; row < snapshot.rows.size(); ++row) {
    row_of_[snapshot.rows[row].id.value()] = static_cast<int>(row);
    classes_.push_back(snapshot.rows[row].id);
  }
  last_weights_.resize(snapshot.rows.size());
}

TimeRange RangeCounter::resolve(const TimeRange& asked) const {
  const auto limit = [&](std::uint64_t time_ns, std::uint64_t standard) {
    if (time_ns == 0 || view_.empty()) return standard;
    if (time_ns <= begin_ns_) return begin_ns_;
    return time_ns >= now_ns_ ? now_ns_ : view_.snap(time_ns);
  };
  if (asked.until_peak) {
    return {begin_ns_, view_.peak == nullptr ? now_ns_ : limit(view_.peak->time_ns, now_ns_), true};
  }
  TimeRange range{limit(asked.begin_ns, begin_ns_), limit(asked.end_ns, now_ns_)};
  range.begin_ns = std::min(range.begin_ns, range.end_ns);
  return range;
}

template <typename Fn>
void RangeCounter::for_each_sum(std::uint64_t begin_ns, std::uint64_t end_ns,
                                const DeathsToRead& deaths, Fn fn) const {
  const auto use = [&](const WindowCell& cell, double rate) {
    if (const int row = row_of(cell.alloc_class); row >= 0) fn(row, cell, weight(row, rate));
  };
  sum_windows(view_.cover(begin_ns, end_ns), use, deaths, classes_);
}

SampleWeight RangeCounter::weight_at(int row, double rate) const {
  SampleWeight each = snapshot_.rows[row].alloc_class.weight(rate);
  if (variances_ == VarianceModel::kChance) {
    each.variance_words2 = each.words * each.words;
    each.skew_words3 = each.variance_words2 * each.words;
  }
  return each;
}

std::vector<Counters> RangeCounter::flows(std::uint64_t begin_ns, std::uint64_t end_ns,
                                          bool with_deaths) const {
  if (begin_ns <= begin_ns_) return flows_since_begin(end_ns);
  std::vector<Counters> result(snapshot_.rows.size());
  const DeathsToRead& deaths = with_deaths ? kAllDeaths : kNoDeaths;
  for_each_sum(begin_ns, end_ns, deaths,
               [&](int row, const WindowCell& cell, const SampleWeight& each) {
                 add_cell(result[row], cell, each, snapshot_.rows[row].alloc_class.block_words(),
                          squares(row, each.words));
               });
  return result;
}

// Subtracts the later windows from the totals, because the oldest windows may be gone.
std::vector<Counters> RangeCounter::flows_since_begin(std::uint64_t end_ns) const {
  std::vector<Counters> result;
  result.reserve(snapshot_.rows.size());
  for (const ProfileRow& row : snapshot_.rows) {
    Counters& counters = result.emplace_back(row.counters);
    counters.live = {};
    counters.live_objects = 0;
    counters.ages = {};
    counters.resident = {};
  }
  if (end_ns >= now_ns_) return result;
  for_each_sum(
      end_ns, now_ns_, kAllDeaths, [&](int row, const WindowCell& cell, const SampleWeight& each) {
        subtract_cell(result[row], cell, each, snapshot_.rows[row].alloc_class.block_words());
      });
  return result;
}

std::vector<Portion> RangeCounter::live_at(std::uint64_t time_ns) const {
  std::vector<Portion> result(snapshot_.rows.size());
  if (time_ns <= begin_ns_) return result;  // nothing was followed yet
  for (std::size_t row = 0; row < result.size(); ++row) {
    const Estimate& live = snapshot_.rows[row].counters.live;
    result[row].add(live);
    // The samples may come from several rates. The sum of their squared weights follows from the
    // variance, which is w^2 - w u for a sample of u words that stands for w (util/estimate.h).
    if (variances_ == VarianceModel::kChance && live.samples > 0) {
      const double sampled = sampled_words(row);
      const double squares = live.variance_words2 + live.words * sampled;
      result[row].variance_words2 = squares;
      result[row].skew_words3 = squares * squares / live.words;
    }
  }
  rewind(time_ns, now_ns_, result);
  return result;
}

double RangeCounter::sampled_words(std::size_t row) const {
  const AllocClass& of = snapshot_.rows[row].alloc_class;
  return of.size.fine() ? of.block_words() : 1;
}

std::vector<Portion> RangeCounter::sampled(const std::vector<Portion>& live) const {
  std::vector<Portion> result = live;
  for (std::size_t row = 0; row < result.size(); ++row) {
    Portion& portion = result[row];
    if (portion.samples <= 0 || portion.words <= 0) continue;
    const double block = sampled_words(row);
    const double missed = std::max(0.0, 1 - block * portion.samples / portion.words);
    portion.variance_words2 *= missed;
    portion.skew_words3 =
        missed > 0 && missed < 1 ? portion.variance_words2 * -block / std::log(missed) : 0;
  }
  return result;
}

void RangeCounter::rewind(std::uint64_t begin_ns, std::uint64_t end_ns,
                          std::vector<Portion>& live) const {
  for (const HistoryWindowPtr& window : view_.cover(begin_ns, end_ns)) {
    window->for_each_count([&](const WindowCell& cell, double rate) {
      const int row = row_of(cell.alloc_class);
      if (row < 0) return;
      const double grown = cell_samples(cell, Blocks::kLive);
      if (grown != 0) live[row].add(-grown, weight(row, rate));
    });
  }
}

std::vector<Portion> RangeCounter::forgotten(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  std::vector<Portion> result(snapshot_.rows.size());
  for (const HistoryWindowPtr& window : view_.cover(begin_ns, end_ns)) {
    window->for_each_count([&](const WindowCell& cell, double rate) {
      const int row = row_of(cell.alloc_class);
      if (row < 0 || cell.forgotten == 0) return;
      result[row].add(static_cast<double>(cell.forgotten), weight(row, rate));
    });
  }
  return result;
}

std::vector<RangeCounter::Deaths> RangeCounter::deaths(std::uint64_t begin_ns, std::uint64_t end_ns,
                                                       const LifetimeSpan& span,
                                                       std::uint64_t born_after_ns) const {
  std::vector<Deaths> result(snapshot_.rows.size());
  std::vector<PartialDeaths> parts(result.size());
  const auto add = [&](std::size_t row, const DeathCounts::Entry& death, const ShareRange& range,
                       const SampleWeight& each) {
    const double share = range.share;
    if (share <= 0) return;
    const double n = static_cast<double>(death.n) * share;
    Portion& heap = result[row].by_heap[static_cast<int>(death.heap())];
    heap.samples += n;
    heap.words += n * each.words;
    const double variance = variance_of({n, n * share}, each);
    heap.variance_words2 += variance;
    heap.skew_words3 += variance * each.grain();
    const double all_words = static_cast<double>(death.n) * each.words;
    heap.divided_less_words += all_words * (share - range.least);
    heap.divided_more_words += all_words * (range.most - share);
    parts[row].add(death.code, n, n * each.words, n * squares(static_cast<int>(row), each.words));
  };
  if (whole(begin_ns, end_ns) && born_after_ns <= begin_ns_) {
    for (std::size_t row = 0; row < result.size(); ++row) {
      const Counters& all = snapshot_.rows[row].counters;
      const auto by_squares = variance_by_squares(all);
      for (const DeathCounts::Entry& death : all.deaths.entries()) {
        const double weight = death.words / static_cast<double>(death.n);
        const auto heap = static_cast<std::size_t>(death.heap());
        add(row, death, range_within(death.bucket(), span),
            {weight, weight * weight * by_squares[heap],
             weight * weight * by_squares[heap] * all.deallocated[heap].grain()});
      }
    }
  } else {
    for_each_death(
        begin_ns, end_ns,
        [&](const HistoryWindow& window) {
          return shares(
              [&](int bucket) { return share_range(bucket, window, born_after_ns, span); });
        },
        [&](std::size_t row, const DeathCounts::Entry& death, const ShareRange& share,
            const SampleWeight& each) { add(row, death, share, each); });
  }
  std::array<SampleRounding, kHeaps> rounding;
  for (std::size_t row = 0; row < result.size(); ++row) {
    result[row].counts = parts[row].whole(rounding);
  }
  return result;
}

double RangeCounter::share_born_after(int bucket, const HistoryWindow& window,
                                      std::uint64_t time_ns, const LifetimeSpan& span) const {
  return time_ns <= begin_ns_ ? LifetimeHistogram::share_within(bucket, span.min_ns, span.max_ns)
                              : share_born_inside(bucket, window, time_ns, span);
}

// Of the lifetimes in the bucket and the span, the shortest make the share largest.
ShareRange RangeCounter::share_range(int bucket, const HistoryWindow& window, std::uint64_t time_ns,
                                     const LifetimeSpan& span) const {
  if (time_ns <= begin_ns_) return range_within(bucket, span);
  const ShareRange within = range_within(bucket, span);
  const double shortest = std::max(shortest_ns(bucket), span.min_ns);
  const double longest = std::min(longest_ns(bucket), span.max_ns);
  return range_of(share_born_inside(bucket, window, time_ns, span),
                  within.least * (1 - share_born_before_at(longest, window, time_ns)),
                  within.most * (1 - share_born_before_at(shortest, window, time_ns)));
}

template <typename SharesOf, typename Fn>
void RangeCounter::for_each_death(std::uint64_t begin_ns, std::uint64_t end_ns, SharesOf shares_of,
                                  Fn fn) const {
  for (const HistoryWindowPtr& window : view_.cover(begin_ns, end_ns)) {
    const Shares by_bucket = shares_of(*window);
    for_each_cell(
        *window, [&](std::size_t) { return kAllDeaths; },
        [&](int row, const WindowCell& cell, const SampleWeight& each) {
          for (const DeathCounts::Entry& death : cell.deaths) {
            fn(static_cast<std::size_t>(row), death, by_bucket[death.bucket()], each);
          }
        });
  }
}

// Works forwards: adds the blocks born in the windows up to until_ns, and subtracts the deaths of
// such blocks in all windows up to at_ns. Only the window and the lifetime bucket of a death are
// known, so it counts by the share of times in both for which the block was born between after_ns
// and until_ns.
std::vector<Portion> RangeCounter::survivors(std::uint64_t after_ns, std::uint64_t until_ns,
                                             std::uint64_t at_ns) const {
  if (after_ns <= begin_ns_) return std::move(born_before({&until_ns, 1}, at_ns).front());
  std::vector<Portion> result(snapshot_.rows.size());
  for (const HistoryWindowPtr& window : view_.cover(after_ns, at_ns)) {
    const Shares born_then =
        shares([&](int bucket) { return range_born_between(bucket, *window, after_ns, until_ns); });
    for_each_cell(
        *window, [&](std::size_t part) { return deaths_to_read(born_then, window->longest(part)); },
        [&](int row, const WindowCell& cell, const SampleWeight& each) {
          if (window->end_ns() <= until_ns) result[row].add(followed(cell), each);
          take(result[row], share_of(cell, born_then), cell, each);
        });
  }
  return result;
}

// Works backwards: takes the blocks live at the latest time and rewinds the windows to each earlier
// time. Then subtracts from each result the deaths until at_ns of blocks born before that time, by
// the same shares as survivors().
std::vector<std::vector<Portion>> RangeCounter::born_before(std::span<const std::uint64_t> times_ns,
                                                            std::uint64_t at_ns) const {
  std::vector<std::vector<Portion>> result;
  for (std::size_t i = 0; i < times_ns.size(); ++i) {
    if (i == 0 || times_ns[i] <= begin_ns_) {
      result.push_back(live_at(times_ns[i]));
    } else {
      result.push_back(result.back());
      rewind(times_ns[i], times_ns[i - 1], result.back());
    }
  }
  // Nothing was born before the attach.
  const auto known = static_cast<std::size_t>(
      std::find_if(times_ns.begin(), times_ns.end(),
                   [&](std::uint64_t time_ns) { return time_ns <= begin_ns_; }) -
      times_ns.begin());
  // Only the earliest times, which come last, need the oldest windows.
  for (std::size_t first = known; first-- > 0;) {
    const std::uint64_t end_ns = first == 0 ? at_ns : times_ns[first - 1];
    for (const HistoryWindowPtr& window : view_.cover(times_ns[first], end_ns)) {
      take_deaths(*window, times_ns.subspan(first, known - first),
                  std::span(result).subspan(first, known - first));
    }
  }
  return result;
}

// Subtracts the deaths in a window, all of them after the times, from the blocks that were born
// before each time.
void RangeCounter::take_deaths(const HistoryWindow& window, std::span<const std::uint64_t> times_ns,
                               std::span<std::vector<Portion>> live) const {
  std::vector<Shares> by_time;
  for (const std::uint64_t time_ns : times_ns) {
    by_time.push_back(
        shares([&](int bucket) { return range_born_before(bucket, window, time_ns); }));
  }
  // For each bucket: the number of leading times for which its deaths count.
  std::array<std::size_t, LifetimeHistogram::kBuckets> reach{};
  for (std::size_t i = 0; i < by_time.size(); ++i) {
    for (std::size_t bucket = 0; bucket < reach.size(); ++bucket) {
      if (by_time[i][bucket].most != 0) reach[bucket] = i + 1;
    }
  }
  for_each_cell(
      window,
      [&](std::size_t part) {
        DeathsToRead any = kNoDeaths;
        for (const Shares& of_time : by_time) {
          const DeathsToRead these = deaths_to_read(of_time, window.longest(part));
          for (int heap = 0; heap < kHeaps; ++heap) any[heap] |= these[heap];
        }
        return any;
      },
      [&](int row, const WindowCell& cell, const SampleWeight& each) {
        std::size_t times = cell.forgotten > 0 ? live.size() : 0;
        for (const DeathCounts::Entry& death : cell.deaths) {
          times = std::max(times, reach[death.bucket()]);
        }
        for (std::size_t i = 0; i < times; ++i) {
          take(live[i][row], share_of(cell, by_time[i]), cell, each);
        }
      });
}

}  // namespace memprofd
