// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/range_ages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "daemon/query/past_ages.h"
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
