// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/range_ages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "daemon/aggregate/death_counts.h"
#include "daemon/query/range.h"

namespace memprofd {
namespace {

constexpr double kFewestSharedSamples = 1e-6;  // samples

void add_share(AgeCounts& to, const AgeCounts::Entry& entry, double share) {
  const double samples = static_cast<double>(entry.n) * share, words = entry.words * share;
  if (samples < kFewestSharedSamples || words <= 0) return;
  const auto n = static_cast<std::uint64_t>(std::max(1.0, std::round(samples)));
  to.add({DeathCounts::code_of(Heap::kMinor, entry.bucket()), n, words, entry.squares * share});
}

// Position of x between the ends of a bucket, 0 to 1.
double place_in(int bucket, double ns) { return LifetimeHistogram::share_within(bucket, 0, ns); }

// Computed on demand for all buckets of a window.
class LateTable {
 public:
  LateTable(double from_ns, double to_ns) : from_ns_(from_ns), to_ns_(to_ns) {}

  // True if any block that left in the bucket may have entered late; otherwise all were born in the
  // range.
  bool any(int left_in) const { return LifetimeHistogram::upper_bound_ns(left_in) > from_ns_; }
  // The deaths that add() needs.
  DeathsToRead to_read(const LongestBuckets& longest) const {
    return {any(longest[0]), any(longest[1])};
  }
  void add(int left_in, const BlockWords& blocks, LateEntries& to) {
    if (!any(left_in)) return;
    auto& shares = by_bucket_[left_in];
    if (!shares) shares = late_shares(left_in, from_ns_, to_ns_);
    for (const LateShare& share : *shares) {
      to.add({share.bucket, share.entered * blocks, share.missed * blocks});
    }
  }

 private:
  double from_ns_, to_ns_;
  std::array<std::optional<std::vector<LateShare>>, LifetimeHistogram::kBuckets> by_bucket_;
};

// ------------------------------------------------------------ ages in the past
//
// The live set of that moment no longer exists, but earlier windows record when blocks were
// allocated. Ages are known to an octave; those below a second are unknown:
//
//   intervals of birth      3    |      2      |   1   | 0 |t      each as long as all later ones
//   a window of interval 1                      ..#..              21 born, 20 died in it
//   ends of lives in it            3 of them were born in 2: 4 are left of 1, subtract 3 from 2
//
// Each window adds the difference of allocations and deaths to its own interval, which requires no
// lifetimes. Then deaths whose lifetimes began before the interval are moved to the interval of
// their birth, by the probability over all moments in both (RangeCounter). A restart of sampling
// forgets everything, the oldest first. Memory that was live before the first relevant interval has
// no age here.

constexpr double kFewestSamples = 1e-6;  // samples
// The first bucket ends at about 1 s, the width of the finest windows. Each step is one octave.
constexpr int kFirstAge = 40;
constexpr int kAgeStep = 2;

// Boundaries of the intervals of birth, latest first; each is a window limit.
std::vector<std::uint64_t> limits_before(const RangeCounter& counter, std::uint64_t time_ns) {
  std::vector<std::uint64_t> limits{time_ns};
  for (int bucket = kFirstAge; bucket + 1 < LifetimeHistogram::kBuckets; bucket += kAgeStep) {
    const auto age = static_cast<std::uint64_t>(LifetimeHistogram::upper_bound_ns(bucket));
    if (age >= time_ns - counter.begin_ns()) break;
    const std::uint64_t limit = counter.resolve({time_ns - age, time_ns}).begin_ns;
    if (limit < limits.back()) limits.push_back(limit);
  }
  return limits;
}

// A share of blocks, and the bucket of ages or interval of birth that contains it.
struct Part {
  int at;
  double share;
};

// Spreads blocks evenly over the time between two ages, by bucket.
std::vector<Part> spread(double youngest_ns, double oldest_ns) {
  std::vector<Part> parts;
  const int last = LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(oldest_ns));
  for (int bucket = LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(youngest_ns));
       bucket <= last; ++bucket) {
    const double from = std::max(youngest_ns, LifetimeHistogram::value_at(bucket, 0));
    const double until =
        bucket == last ? oldest_ns : std::min(oldest_ns, LifetimeHistogram::upper_bound_ns(bucket));
    const double share = oldest_ns > youngest_ns ? (until - from) / (oldest_ns - youngest_ns) : 1;
    if (share > 0) parts.push_back({bucket, share});
  }
  return parts;
}

void add_age(AgeCounts::Plain& to, int bucket, double words, double samples,
             double squares_per_word) {
  if (samples < kFewestSamples) return;
  const auto n = static_cast<std::uint64_t>(std::max(1.0, std::round(samples)));
  to.add({DeathCounts::code_of(Heap::kMinor, bucket), n, words, words * squares_per_word},
         LifetimeHistogram::middle_ns(bucket) * words);
}

// For each lifetime bucket of a window's deaths: the older intervals of birth and their shares.
class Births {
 public:
  Births(const HistoryWindow& window, const std::vector<std::uint64_t>& limits, std::size_t own)
      : window_(window), limits_(limits), own_(own) {}

  const std::vector<Part>& older(int bucket) {
    auto& parts = by_bucket_[bucket];
    if (parts) return *parts;
    parts.emplace();
    double share = before(bucket, own_ + 1);
    for (std::size_t i = own_ + 1; share > 0; ++i) {
      const double older = before(bucket, i + 1);
      parts->push_back({static_cast<int>(i), share - older});
      share = older;
    }
    return *parts;
  }
  DeathsToRead to_read(const LongestBuckets& longest) {
    const auto any = [&](int last) {
      for (int bucket = 0; bucket <= last; ++bucket) {
        if (!older(bucket).empty()) return true;
      }
      return false;
    };
    return {any(longest[0]), any(longest[1])};
  }

 private:
  // The share that was born in interval i or an older one.
  double before(int bucket, std::size_t i) const {
    return i < limits_.size() ? share_born_before(bucket, window_, limits_[i]) : 0;
  }

  const HistoryWindow& window_;
  const std::vector<std::uint64_t>& limits_;
  std::size_t own_;  // the interval that contains the window
  std::array<std::optional<std::vector<Part>>, LifetimeHistogram::kBuckets> by_bucket_;
};

// Live words by row and interval of birth.
class WordsByBirth {
 public:
  WordsByBirth(const std::vector<Portion>& oldest, std::size_t intervals)
      : intervals_(intervals), words_(oldest.size() * intervals) {
    for (std::size_t row = 0; row < oldest.size(); ++row)
      of(row)[intervals - 1] = oldest[row].words;
  }

  void add(const RangeCounter& counter, const HistoryWindow& window, std::size_t own,
           Births births) {
    counter.for_each_cell(
        window, [&](std::size_t part) { return births.to_read(window.longest(part)); },
        [&](int row, const WindowCell& cell, const SampleWeight& each) {
          add(cell, each.words, of(static_cast<std::size_t>(row)), own, births);
        });
  }
  double* of(std::size_t row) { return words_.data() + row * intervals_; }

 private:
  void add(const WindowCell& cell, double each, double* words, std::size_t own, Births& births) {
    const std::uint64_t died = cell.died[0] + cell.died[1];
    words[own] += each * (static_cast<double>(cell.allocated - cell.never_followed) -
                          static_cast<double>(died));
    for (const DeathCounts::Entry& death : cell.deaths) {
      for (const Part& older : births.older(death.bucket())) {
        const double moved = static_cast<double>(death.n) * each * older.share;
        words[own] += moved;
        words[older.at] -= moved;
      }
    }
    if (cell.forgotten > 0) forget(static_cast<double>(cell.forgotten) * each, words, own);
  }
  // Removes the words from the oldest interval first, and the remainder from `own`.
  void forget(double left, double* words, std::size_t own) const {
    double* const older = words + own + 1;
    double* const end = words + intervals_;
    if (const double all = std::accumulate(older, end, 0.0); left >= all) {
      std::fill(older, end, 0.0);
      words[own] -= left - all;
      return;
    }
    for (double* oldest = end - 1; left > 0 && oldest >= older; --oldest) {
      const double gone = std::clamp(*oldest, 0.0, left);
      *oldest -= gone;
      left -= gone;
    }
  }

  std::size_t intervals_;
  std::vector<double> words_;
};

// The ages of each interval. If the windows of the oldest interval are gone, all of its blocks get
// the lowest possible age.
std::vector<std::vector<Part>> ages_of(const RangeCounter& counter,
                                       const std::vector<std::uint64_t>& limits) {
  std::vector<std::vector<Part>> result;
  const auto age = [&](std::uint64_t at) { return static_cast<double>(limits[0] - at); };
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const bool oldest = i + 1 == limits.size();
    const std::uint64_t from = !oldest                             ? limits[i + 1]
                               : counter.knows(counter.begin_ns()) ? counter.begin_ns()
                                                                   : limits[i];
    result.push_back(spread(age(limits[i]), age(from)));
  }
  return result;
}

// Returns one entry per row. live: RangeCounter::live_at(time_ns), before the newest boundary; the
// ages of a row add up to it.
std::vector<AgeCounts> past_ages(const RangeCounter& counter, std::uint64_t time_ns,
                                 const std::vector<Portion>& live) {
  const std::vector<std::uint64_t> limits = limits_before(counter, time_ns);
  std::vector<Portion> oldest = live;
  counter.rewind(limits.back(), time_ns, oldest);
  WordsByBirth words(oldest, limits.size());
  for (std::size_t i = limits.size() - 1; i-- > 0;) {
    for (const HistoryWindowPtr& window : counter.cover(limits[i + 1], limits[i])) {
      words.add(counter, *window, i, Births(*window, limits, i));
    }
  }
  const std::vector<std::vector<Part>> ages = ages_of(counter, limits);
  std::vector<AgeCounts> result(live.size());
  AgeCounts::Plain row_ages;
  for (std::size_t row = 0; row < live.size(); ++row) {
    if (live[row].samples < kFewestSamples || live[row].words <= 0) continue;
    double* const of_row = words.of(row);
    double all = 0;  // lifetimes are known only by bucket, so some intervals may be negative
    for (std::size_t i = 0; i < limits.size(); ++i) all += std::max(0.0, of_row[i]);
    if (all <= 0) continue;
    const double each = live[row].words / live[row].samples;
    const double squares = counter.squares(static_cast<int>(row), each) / each;
    for (std::size_t i = 0; i < limits.size(); ++i) {
      for (const Part& age : ages[i]) {
        const double of_age = of_row[i] / all * live[row].words * age.share;
        add_age(row_ages, age.at, of_age, of_age / each, squares);
      }
    }
    result[row] =
        AgeCounts::of({row_ages.entries.begin(), row_ages.entries.end()}, row_ages.sum_ns);
    row_ages.clear();
  }
  return result;
}

}  // namespace

// Averages over several times in the span and several lifetimes in the bucket. A block that enters
// and leaves in the same bucket is at risk only in between. SurvivalCurve counts half of the bucket
// in which a block leaves, so the missed share is one half minus the share at risk.
std::vector<LateShare> late_shares(int left_in, double from_ns, double to_ns) {
  constexpr int kMoments = 3, kLifetimes = 8;
  constexpr double kEach = 1.0 / (kMoments * kLifetimes);
  std::vector<LateShare> result;
  for (int i = 0; i < kMoments * kLifetimes; ++i) {
    const double since =
        from_ns + (to_ns - from_ns) * (static_cast<double>(i % kMoments) + 0.5) / kMoments;
    const int lifetime = i / kMoments;
    const double place = (lifetime + 0.5) / kLifetimes;
    const double entry_age = LifetimeHistogram::value_at(left_in, place) - since;
    if (entry_age <= 0) continue;
    const int bucket =
        std::min(left_in, LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(entry_age)));
    const double entry_place = place_in(bucket, entry_age);
    const double missed = bucket < left_in ? entry_place : 0.5 - (place - entry_place);
    const auto at = std::find_if(result.begin(), result.end(),
                                 [&](const LateShare& share) { return share.bucket == bucket; });
    LateShare& share = at == result.end() ? result.emplace_back(LateShare{bucket}) : *at;
    share.entered += kEach;
    share.missed += kEach * missed;
  }
  return result;
}

std::vector<AgeCounts> ages_at(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                               std::uint64_t time_ns, const std::vector<Portion>& live) {
  if (time_ns < counter.now_ns()) return past_ages(counter, time_ns, live);
  std::vector<AgeCounts> result;
  result.reserve(snapshot.rows.size());
  for (const ProfileRow& row : snapshot.rows) result.push_back(row.counters.ages);
  return result;
}

std::vector<AgeCounts> ages_at_end(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                                   const TimeRange& range, const AgeFilter& filter) {
  std::vector<AgeCounts> all =
      ages_at(counter, snapshot, range.end_ns, counter.live_at(range.end_ns));
  LifetimeSpan span = filter.span;
  if (filter.allocated_in_range) {
    span.max_ns = std::min(span.max_ns, ns_between(range.begin_ns, range.end_ns));
  }
  if (span.all()) return all;
  std::vector<AgeCounts> result(all.size());
  for (std::size_t row = 0; row < all.size(); ++row) {
    for (const AgeCounts::Entry& entry : all[row].entries()) {
      add_share(result[row], entry,
                LifetimeHistogram::share_within(entry.bucket(), span.min_ns, span.max_ns));
    }
  }
  return result;
}

std::vector<AgeCounts> forgotten_ages(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                                      const TimeRange& range, const AgeFilter& filter) {
  std::vector<AgeCounts> result(snapshot.rows.size());
  const std::uint64_t born_after_ns =
      filter.allocated_in_range ? range.begin_ns : counter.begin_ns();
  if (counter.whole(range.begin_ns, range.end_ns)) {  // the windows of that time may be gone
    for (std::size_t row = 0; row < result.size(); ++row) {
      for (const AgeCounts::Entry& entry : snapshot.rows[row].counters.forgotten.entries()) {
        add_share(result[row], entry,
                  LifetimeHistogram::share_within(entry.bucket(), filter.span.min_ns,
                                                  filter.span.max_ns));
      }
    }
    return result;
  }
  for (const HistoryWindowPtr& window : counter.cover(range.begin_ns, range.end_ns)) {
    counter.for_each_cell(
        *window, [](std::size_t) { return kNoDeaths; },
        [&](int row, const WindowCell& cell, const SampleWeight& each) {
          for (AgeCounts::Entry entry : cell.ages) {
            entry.words = static_cast<double>(entry.n) * each.words;
            entry.squares = static_cast<double>(entry.n) * counter.squares(row, each.words);
            add_share(
                result[row], entry,
                counter.share_born_after(entry.bucket(), *window, born_after_ns, filter.span));
          }
        });
  }
  return result;
}

void add_late_entries(const RangeCounter& counter, const TimeRange& range,
                      std::vector<Counters>& counters) {
  if (range.begin_ns <= counter.begin_ns()) return;  // no block is older
  for (const HistoryWindowPtr& window : counter.cover(range.begin_ns, range.end_ns)) {
    LateTable late(ns_between(range.begin_ns, window->begin_ns()),
                   ns_between(range.begin_ns, window->end_ns()));
    counter.for_each_cell(
        *window, [&](std::size_t part) { return late.to_read(window->longest(part)); },
        [&](int row, const WindowCell& cell, const SampleWeight& each) {
          const double squares = counter.squares(row, each.words);
          for (const auto& left : {cell.deaths, cell.ages}) {
            for (const DeathCounts::Entry& entry : left) {
              const auto n = static_cast<double>(entry.n);
              late.add(entry.bucket(), {n * each.words, n * squares}, counters[row].late);
            }
          }
        });
  }
  const double length = ns_between(range.begin_ns, range.end_ns);
  LateTable at_end(length, length);
  for (Counters& of_row : counters) {
    for (const AgeCounts::Entry& entry : of_row.ages.entries()) {
      at_end.add(entry.bucket(), {entry.words, entry.squares}, of_row.late);
    }
  }
}

}  // namespace memprofd
