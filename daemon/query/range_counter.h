// SPDX-License-Identifier: Apache-2.0
// Counts a snapshot's rows in spans of its history.
//
// Flows between two window boundaries are sums over windows. Live memory at a boundary is the
// present one, rewound through the windows since:
//
//   live(t) = live(now) - followed(t, now] + died(t, now] + forgotten(t, now]
//
// where followed are those of the allocated blocks that were followed at all. When sampling
// restarts, all live blocks are forgotten, whatever their age.
//
// Blocks born between x and y and still alive at b are those allocated in that time, minus the
// deaths up to b whose lifetimes show that they were born in it. A window does not record when
// within it a block died (every time is equally likely), and a lifetime is known by its bucket
// (spread evenly on the log scale), so this count is approximate; the others are exact.
//
//      x      y              b
//      |######|--------------|      allocated in ## , died up to b:
//                  t              birth = t - lifetime, in (x, y] or not
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "daemon/history/profile.h"
#include "daemon/history/snapshot.h"
#include "daemon/query/partial_deaths.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// An estimate that may count partially.
struct Portion {
  double samples = 0;
  double words = 0;
  double variance_words2 = 0;
  double skew_words3 = 0;
  double divided_less_words = 0;  // as in Estimate
  double divided_more_words = 0;

  void add(double n, const SampleWeight& each) {
    samples += n;
    words += n * each.words;
    variance_words2 += n * each.variance_words2;
    skew_words3 += n * each.skew_words3;
  }
  void add(const Estimate& estimate, double share = 1) {
    samples += static_cast<double>(estimate.samples) * share;
    words += estimate.words * share;
    variance_words2 += estimate.variance_words2 * share;
    skew_words3 += estimate.skew_words3 * share;
  }
  Portion& operator+=(const Portion& other) {
    divided_less_words += other.divided_less_words;
    divided_more_words += other.divided_more_words;
    samples += other.samples;
    words += other.words;
    variance_words2 += other.variance_words2;
    skew_words3 += other.skew_words3;
    return *this;
  }
  // Replaces negative values, which partial deaths may cause, with zero: call it only for the sum
  // that is shown. Rounds samples, but not words.
  Estimate estimate(SampleRounding& rounding) const;
  Estimate estimate() const {
    SampleRounding alone;
    return estimate(alone);
  }
};

// Lifetimes from min (inclusive) to max, in ns.
struct LifetimeSpan {
  double min_ns = 0;
  double max_ns = std::numeric_limits<double>::infinity();

  bool all() const { return min_ns <= 0 && max_ns == std::numeric_limits<double>::infinity(); }
};

// The share of a bucket's samples that pass a filter, with the shares if all of their lifetimes
// were at the end of the bucket where fewest, or most, of them pass.
struct ShareRange {
  double share = 0;
  double least = 0;
  double most = 0;
};

// The uncertainty that the variances of an answer describe.
enum class VarianceModel {
  kSampling,  // choice of the sampled words: the distance from the true value
  kChance,    // that, and that the program might as well have allocated or freed another
              // block: the variation of live memory without a trend
};

// Not thread-safe.
class RangeCounter {
 public:
  explicit RangeCounter(const ProfileSnapshot& snapshot,
                        VarianceModel variances = VarianceModel::kSampling);

  std::uint64_t begin_ns() const { return begin_ns_; }  // begin of the recording
  std::uint64_t now_ns() const { return now_ns_; }
  // Sets both ends, moved to window boundaries, with begin <= end.
  TimeRange resolve(const TimeRange& asked) const;

  // All results are indexed by row of the snapshot; all times are window boundaries.

  // Everything except live, its ages and late entries. Omits deaths and forgotten memory unless
  // they are requested, because they take most of the work.
  std::vector<Counters> flows(std::uint64_t begin_ns, std::uint64_t end_ns,
                              bool with_deaths = true) const;
  std::vector<Portion> live_at(std::uint64_t time_ns) const;
  // Deaths in the range, by heap. born_after_ns: only blocks born later.
  struct Deaths {
    std::array<Portion, kHeaps> by_heap;
    DeathCounts counts;  // rounded to whole samples
  };
  std::vector<Deaths> deaths(std::uint64_t begin_ns, std::uint64_t end_ns, const LifetimeSpan& span,
                             std::uint64_t born_after_ns) const;
  // Blocks born in (after_ns, until_ns] that are alive at at_ns >= until_ns. May be slightly
  // negative, like born_before().
  std::vector<Portion> survivors(std::uint64_t after_ns, std::uint64_t until_ns,
                                 std::uint64_t at_ns) const;

  // For each of the times, latest first and none after at_ns: blocks born before it that are alive
  // at at_ns. Reads the history once for all of them.
  std::vector<std::vector<Portion>> born_before(std::span<const std::uint64_t> times_ns,
                                                std::uint64_t at_ns) const;

  // The windows of a span, like HistoryView::steps().
  std::vector<HistoryView::Tier> steps(std::uint64_t begin_ns, std::uint64_t end_ns,
                                       std::size_t max_steps) const {
    return view_.steps(begin_ns, end_ns, max_steps);
  }
  std::vector<HistoryWindowPtr> cover(std::uint64_t begin_ns, std::uint64_t end_ns) const {
    return view_.cover(begin_ns, end_ns);
  }
  // True if the span covers the whole recording. The snapshot's totals are then exact, even if
  // windows were dropped.
  bool whole(std::uint64_t begin_ns, std::uint64_t end_ns) const {
    return begin_ns <= begin_ns_ && end_ns >= now_ns_;
  }
  // True if the windows since then still exist.
  bool knows(std::uint64_t time_ns) const { return view_.oldest_ns() <= time_ns; }
  std::vector<HistoryWindowPtr> finest(std::uint64_t begin_ns, std::uint64_t end_ns) const {
    return view_.finest(begin_ns, end_ns);
  }
  std::optional<std::uint64_t> session_at(std::uint64_t time_ns) const {
    return view_.session_at(time_ns);
  }
  // Blocks forgotten in the span: they were alive then, and their end is unknown.
  std::vector<Portion> forgotten(std::uint64_t begin_ns, std::uint64_t end_ns) const;
  // Converts live memory at the end into live memory at the start.
  void rewind(std::uint64_t begin_ns, std::uint64_t end_ns, std::vector<Portion>& live) const;
  // Calls fn(row, cell, weight) for the cells of a window, with the deaths that choose(part)
  // selects.
  template <typename Choose, typename Fn>
  void for_each_cell(const HistoryWindow& window, Choose choose, Fn fn) const;
  // Weight of a sample of a row.
  const SampleWeight& weight(int row, double rate) const {
    LastWeight& last = last_weights_[row];
    if (last.rate != rate) last = {rate, weight_at(row, rate)};
    return last.weight;
  }
  // Live portions with VarianceModel::kChance, by row, converted to VarianceModel::kSampling. The
  // probability of a sample from a block of b words that represents w words was b / w (for a single
  // word: 1 / w), which determines its variance w^2 (1 - b / w) and its grain.
  std::vector<Portion> sampled(const std::vector<Portion>& live) const;
  // Squared words of the block, per sample of a row with this weight. A small block with a sample
  // has 1 + rate * (its words - 1) samples on average (binomial; the mean of the square is
  // approximated by the square of the mean).
  double squares(int row, double words_each) const {
    const AllocClass& of = snapshot_.rows[row].alloc_class;
    const double block = of.block_words();
    const double samples = !of.size.fine() ? 1 + std::max(0.0, block - 1) / words_each : 1;
    return words_each * words_each * samples;
  }
  // The share of a window's deaths, or of its forgotten memory, that was born after a time and has
  // a lifetime in the span.
  double share_born_after(int bucket, const HistoryWindow& window, std::uint64_t time_ns,
                          const LifetimeSpan& span) const;
  // The same with its limits, since lifetimes are known by their bucket only.
  ShareRange share_range(int bucket, const HistoryWindow& window, std::uint64_t time_ns,
                         const LifetimeSpan& span) const;
  // The row of a class; -1: none.
  int row_of(ClassId id) const { return id.value() < row_of_.size() ? row_of_[id.value()] : -1; }

 private:
  // Calls fn(row, cell, weight) for the sums over windows.
  template <typename Fn>
  void for_each_sum(std::uint64_t begin_ns, std::uint64_t end_ns, const DeathsToRead& deaths,
                    Fn fn) const;
  // Calls fn(row, death, share, weight) for the deaths in a span, with the share that
  // shares_of(window) returns for their bucket.
  template <typename SharesOf, typename Fn>
  void for_each_death(std::uint64_t begin_ns, std::uint64_t end_ns, SharesOf shares_of,
                      Fn fn) const;
  std::vector<Counters> flows_since_begin(std::uint64_t end_ns) const;
  void take_deaths(const HistoryWindow& window, std::span<const std::uint64_t> times_ns,
                   std::span<std::vector<Portion>> live) const;
  SampleWeight weight_at(int row, double rate) const;
  // Words that one sample of the row proves: the whole block if the block counts once, otherwise
  // one word.
  double sampled_words(std::size_t row) const;

  const ProfileSnapshot& snapshot_;
  const HistoryView& view_;
  std::uint64_t begin_ns_;
  std::uint64_t now_ns_;
  VarianceModel variances_;
  std::vector<int> row_of_;       // indexed by class
  std::vector<ClassId> classes_;  // indexed by row
  struct LastWeight {
    double rate = 0;
    SampleWeight weight;
  };
  mutable std::vector<LastWeight> last_weights_;  // indexed by row; caches the weight, because
                                                  // rates rarely change
};

// The share of a window's deaths whose blocks were born before a time.
double share_born_before(int bucket, const HistoryWindow& window, std::uint64_t time_ns);

template <typename Choose, typename Fn>
void RangeCounter::for_each_cell(const HistoryWindow& window, Choose choose, Fn fn) const {
  for (std::size_t part = 0; part < window.parts(); ++part) {
    WindowPartReader reader = window.read(part, choose(part));
    const double rate = window.rate(part);
    const WindowCell* cell = nullptr;
    for (std::size_t row = 0; row < classes_.size(); ++row) {
      if (cell == nullptr || cell->alloc_class < classes_[row]) {
        cell = reader.next_from(classes_[row]);
      }
      if (cell == nullptr) break;
      if (cell->alloc_class != classes_[row]) continue;
      fn(static_cast<int>(row), *cell, weight(static_cast<int>(row), rate));
    }
  }
}

}  // namespace memprofd
