// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/range_ages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace memprofd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNothing = 1e-6;  // samples
// Bucket that ends at about a second, the width of the finest windows; from there on an octave.
constexpr int kFirstAge = 40;
constexpr int kAgeStep = 2;

double ns_between(std::uint64_t from, std::uint64_t to) {
  return static_cast<double>(to) - static_cast<double>(from);
}

void add_part(AgeCounts& to, int bucket, double samples, double words, double squares) {
  if (samples < kNothing || words <= 0) return;
  const auto n = static_cast<std::uint64_t>(std::max(1.0, std::round(samples)));
  to.add({DeathCounts::code_of(Heap::kMinor, bucket), n, words, squares});
}

void add_share(AgeCounts& to, const AgeCounts::Entry& entry, double share) {
  add_part(to, entry.bucket(), static_cast<double>(entry.n) * share, entry.words * share,
           entry.squares * share);
}

// Adds blocks that are between two ages old, in ns, spread evenly over the time.
void spread(const Portion& blocks, double youngest, double oldest, double squares_per_word,
            AgeCounts& to) {
  const int last = LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(oldest));
  for (int bucket = LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(youngest));
       bucket <= last; ++bucket) {
    const double from = std::max(youngest, LifetimeHistogram::value_at(bucket, 0));
    const double until =
        bucket == last ? oldest : std::min(oldest, LifetimeHistogram::upper_bound_ns(bucket));
    const double share = oldest > youngest ? (until - from) / (oldest - youngest) : 1;
    const double words = blocks.words * share;
    add_part(to, bucket, blocks.samples * share, words, words * squares_per_word);
  }
}

// Window limits, latest first, between which ages are told apart.
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

// Where x lies between the ends of a bucket, 0 to 1.
double place_in(int bucket, double ns) { return LifetimeHistogram::share_within(bucket, 0, ns); }

// For all buckets of a window, computed when asked for.
class LateTable {
 public:
  LateTable(double from_ns, double to_ns) : from_ns_(from_ns), to_ns_(to_ns) {}

  void add(int left_in, const BlockWords& blocks, LateEntries& to) {
    // Those were born in the range.
    if (LifetimeHistogram::upper_bound_ns(left_in) <= from_ns_) return;
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

}  // namespace

// The mean over some moments in the span and some lifetimes in the bucket. Where a block enters
// and leaves in one bucket it was at risk between the two; without a late entry half of the bucket
// counts (SurvivalCurve), so that what it missed is half less that.
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

std::vector<AgeCounts> ages_at(const RangeCounter& counter, const TargetSnapshot& snapshot,
                               std::uint64_t time_ns) {
  std::vector<AgeCounts> result(snapshot.rows.size());
  if (time_ns >= counter.now_ns()) {
    for (std::size_t row = 0; row < result.size(); ++row) {
      result[row] = snapshot.rows[row].counters.ages;
    }
    return result;
  }
  const std::vector<std::uint64_t> limits = limits_before(counter, time_ns);
  const std::vector<std::vector<Portion>> born = counter.born_before(limits, time_ns);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const bool oldest = i + 1 == limits.size();
    const double youngest_ns = ns_between(limits[i], time_ns);
    // How old the oldest are is not known where the windows of then are gone.
    const double oldest_ns = !oldest ? ns_between(limits[i + 1], time_ns)
                             : counter.knows(counter.begin_ns())
                                 ? ns_between(counter.begin_ns(), time_ns)
                                 : youngest_ns;
    for (std::size_t row = 0; row < result.size(); ++row) {
      Portion blocks = born[i][row];
      if (!oldest) blocks.subtract(born[i + 1][row]);
      if (blocks.samples < kNothing || blocks.words <= 0) continue;
      const double each = blocks.words / blocks.samples;
      spread(blocks, youngest_ns, oldest_ns, counter.squares(static_cast<int>(row), each) / each,
             result[row]);
    }
  }
  return result;
}

std::vector<AgeCounts> ages_at_end(const RangeCounter& counter, const TargetSnapshot& snapshot,
                                   const TimeRange& range, const AgeFilter& filter) {
  std::vector<AgeCounts> all = ages_at(counter, snapshot, range.end_ns);
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

std::vector<AgeCounts> forgotten_ages(const RangeCounter& counter, const TargetSnapshot& snapshot,
                                      const TimeRange& range, const AgeFilter& filter) {
  std::vector<AgeCounts> result(snapshot.rows.size());
  const std::uint64_t born_after_ns =
      filter.allocated_in_range ? range.begin_ns : counter.begin_ns();
  for (const HistoryWindowPtr& window : counter.cover(range.begin_ns, range.end_ns)) {
    window->for_each_cell([&](const WindowCell& cell, double rate) {
      const int row = counter.row_of(cell.alloc_class);
      if (row < 0 || cell.ages.empty()) return;
      const double each = counter.weight(row, rate).words;
      for (AgeCounts::Entry entry : cell.ages) {
        entry.words = static_cast<double>(entry.n) * each;
        entry.squares = static_cast<double>(entry.n) * counter.squares(row, each);
        add_share(result[row], entry,
                  counter.share_born_after(entry.bucket(), *window, born_after_ns, filter.span));
      }
    });
  }
  return result;
}

void add_late_entries(const RangeCounter& counter, const TimeRange& range,
                      std::vector<Counters>& counters) {
  if (range.begin_ns <= counter.begin_ns()) return;  // nothing was there before
  for (const HistoryWindowPtr& window : counter.cover(range.begin_ns, range.end_ns)) {
    LateTable late(ns_between(range.begin_ns, window->begin_ns()),
                   ns_between(range.begin_ns, window->end_ns()));
    window->for_each_cell([&](const WindowCell& cell, double rate) {
      const int row = counter.row_of(cell.alloc_class);
      if (row < 0) return;
      const double each = counter.weight(row, rate).words;
      for (const auto& left : {cell.deaths, cell.ages}) {
        for (const DeathCounts::Entry& entry : left) {
          const auto n = static_cast<double>(entry.n);
          late.add(entry.bucket(), {n * each, n * counter.squares(row, each)}, counters[row].late);
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
