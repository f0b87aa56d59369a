// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/past_ages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace memprofd {
namespace {

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

}  // namespace

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

}  // namespace memprofd
