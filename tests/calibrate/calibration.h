// SPDX-License-Identifier: Apache-2.0
// Many runs of programs with known books: how far what memprofd says is from the truth in the mean,
// and how often its 95 % interval has the truth.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "daemon/aggregate/survival_curve.h"
#include "daemon/query/diff.h"
#include "daemon/query/leaks.h"
#include "daemon/query/roll_up.h"
#include "daemon/query/select.h"
#include "tests/calibrate/simulated_books.h"

namespace memprofd {

// One quantity in one kind of run.
class Calibrated {
 public:
  // Ends a run, which counts once: its answers are not independent.
  void end_run() {
    if (truth_ > 0) {
      ++runs_;
      const double error = said_ - truth_;
      sum_truth_ += truth_;
      sum_error_ += error;
      sum_squares_ += error * error;
    }
    truth_ = said_ = 0;
  }
  // expected: samples that such a truth has in the mean. (Those that were seen would not do: of
  // two equal sites the one with fewer reads too low, and is in a lower band for that.)
  void add(double truth, double said, const Limits& limits, double expected) {
    truth_ += std::abs(truth);
    said_ += truth < 0 ? -said : said;
    Band& band = bands_[expected < 10 ? 0 : expected < 100 ? 1 : 2];
    // What floating point leaves of exact numbers is no miss.
    const double slack = 1e-9 * std::abs(truth) + 1e-6;
    ++band.all;
    band.below += truth < limits.lower - slack;
    band.above += truth > limits.upper + slack;
  }

  double bias() const { return sum_truth_ > 0 ? sum_error_ / sum_truth_ : 0; }
  // One standard error of bias(), from the scatter of the runs.
  double bias_stderr() const {
    const double mean = sum_error_ / runs_;
    return std::sqrt(std::max(0.0, sum_squares_ - runs_ * mean * mean)) / sum_truth_;
  }
  long answers() const { return bands_[0].all + bands_[1].all + bands_[2].all; }
  double coverage() const {
    return 1 - static_cast<double>(missed(&Band::below) + missed(&Band::above)) /
                   static_cast<double>(answers());
  }
  // The shares of answers with a truth below or above the interval.
  double below() const {
    return static_cast<double>(missed(&Band::below)) / static_cast<double>(answers());
  }
  double above() const {
    return static_cast<double>(missed(&Band::above)) / static_cast<double>(answers());
  }
  static constexpr int kBands = 3;  // below 10 expected samples, below 100, more
  // -1: there is none.
  double coverage(int band) const {
    const Band& of = bands_[band];
    return of.all == 0 ? -1
                       : 1 - static_cast<double>(of.below + of.above) / static_cast<double>(of.all);
  }

 private:
  struct Band {
    long all = 0;
    long below = 0, above = 0;  // truths that are so, beside the interval
  };
  long missed(long Band::*side) const {
    return bands_[0].*side + bands_[1].*side + bands_[2].*side;
  }
  std::array<Band, kBands> bands_;
  double truth_ = 0, said_ = 0;  // of the run
  double runs_ = 0, sum_truth_ = 0, sum_error_ = 0, sum_squares_ = 0;
};

class Calibration {
 public:
  static const std::vector<std::string>& quantities() {
    static const std::vector<std::string> all = {"allocated",        "allocated in a range",
                                                 "promoted",         "died young",
                                                 "died old",         "live",
                                                 "live in the past", "blocks",
                                                 "live blocks",      "difference",
                                                 "growth",           "all allocated",
                                                 "of a thread",      "all live",
                                                 "most live",        "p50 of lifetimes",
                                                 "p90 of lifetimes", "median age"};
    return all;
  }
  const Calibrated& of(const std::string& quantity) { return of_[quantity]; }

  void run(const BooksOptions& options) {
    const SimulatedBooks books(options);
    rate_ = options.rate;
    followed_ = !options.observe;
    filter_.heap.reset();
    if (options.native_interval != 0) filter_.heap = HeapKind::kC;
    const ProfileSnapshot snapshot = books.recording().snapshot();
    const int end = options.seconds, middle = end / 2;
    const TargetProfile whole = profile(snapshot, {});
    const TargetProfile early = profile(snapshot, {0, books.time(middle)});
    const TargetProfile late = profile(snapshot, {books.time(middle), 0});
    const std::vector<Group> groups = by_site(whole), then = by_site(early), since = by_site(late);
    for (int site = 0; site < SimulatedBooks::kSites; ++site) {
      const TrueCounts &truth = books.at(end, site), &before = books.at(middle, site);
      take_site(truth, groups[site]);
      take("allocated in a range", truth.allocated - before.allocated, since[site],
           Measure::kAllocated);
      if (followed_) take("live in the past", before.live, then[site], Measure::kLive);
    }
    take_totals(books, snapshot, whole, end);
    take_difference(books, early, late, middle, end);
    if (options.one_session() && followed_) take_growth(books, snapshot, middle, end);
    if (followed_) take_lifetimes(books, groups, end);
    for (auto& [name, calibrated] : of_) calibrated.end_run();
  }

 private:
  TargetProfile profile(const ProfileSnapshot& snapshot, const TimeRange& range) const {
    return select(snapshot, range, filter_).value();
  }
  // Site n is the function at address n + 1.
  static int site_of(const GroupName& name) {
    return static_cast<int>(std::stoul(name.location.function, nullptr, 16)) - 1;
  }
  static std::vector<Group> by_site(const TargetProfile& profile) {
    GroupedRows rows(profile, GroupBy::kFunction);
    std::vector<Group> result(SimulatedBooks::kSites);
    for (Group& group : result) static_cast<GroupCounts&>(group) = rows.nothing();
    for (Group& group : rows.all_sums()) {
      const int site = site_of(group);
      result[site] = std::move(group);
    }
    return result;
  }

  double expected(double bytes) const { return std::abs(bytes) / kBytesPerWord * rate_; }
  void take(const char* quantity, double truth, const GroupCounts& said, Measure measure,
            double expected_samples) {
    if (truth == 0) return;
    of_[quantity].add(truth, measure_value(said.counters, measure), measure_limits(said, measure),
                      expected_samples);
  }
  void take(const char* quantity, double truth, const GroupCounts& said, Measure measure) {
    take(quantity, truth, said, measure, expected(truth));
  }
  void take_site(const TrueCounts& truth, const Group& said) {
    take("allocated", truth.allocated, said, Measure::kAllocated);
    if (!followed_) return;  // blocks have coarse sizes too
    take("promoted", truth.promoted, said, Measure::kPromoted);
    take("died young", truth.died_young, said, Measure::kDiedYoung);
    take("died old", truth.died_old, said, Measure::kDiedOld);
    take("live", truth.live, said, Measure::kLive);
    take("blocks", truth.allocated_objects, said, Measure::kAllocatedObjects,
         expected(truth.allocated));
    take("live blocks", truth.live_objects, said, Measure::kLiveObjects, expected(truth.live));
  }
  void take_totals(const SimulatedBooks& books, const ProfileSnapshot& snapshot,
                   const TargetProfile& profile, int end) {
    const GroupCounts total = GroupedRows(profile, GroupBy::kFunction).total();
    take("all allocated", books.total(end).allocated, total, Measure::kAllocated);
    take_threads(books, profile);
    if (!followed_) return;
    take("all live", books.total(end).live, total, Measure::kLive);
    if (filter_.heap) return;  // the most is that of OCaml's memory
    double peak = 0;
    for (int second = 1; second <= end; ++second) peak = std::max(peak, books.total(second).live);
    const HistoryView& history = snapshot.history;
    of_["most live"].add(peak, history.peak->live.bytes(), history.peak_limits, expected(peak));
  }
  void take_threads(const SimulatedBooks& books, const TargetProfile& profile) {
    for (const Group& group : GroupedRows(profile, GroupBy::kThread).all_sums()) {
      take("of a thread", books.allocated_by(static_cast<int>(group.number)), group,
           Measure::kAllocated);
    }
  }
  void take_lifetimes(const SimulatedBooks& books, const std::vector<Group>& groups, int end) {
    for (int site = 0; site < SimulatedBooks::kSites; ++site) {
      const SurvivalCurve curve(groups[site].counters);
      if (curve.empty()) continue;
      for (const double q : {0.5, 0.9}) {
        const auto truth = books.lifetime(site, q);
        if (!truth || *truth == 0) continue;
        const SurvivalCurve::Quantile said = curve.quantile(q);
        // "More than that" is right of whatever is more.
        const double at_least = curve.watched_ns() / 1e9;
        of_[q == 0.5 ? "p50 of lifetimes" : "p90 of lifetimes"].add(
            *truth, said.ns ? *said.ns / 1e9 : std::max<double>(*truth, at_least),
            {said.lower_ns / 1e9,
             said.upper_ns ? *said.upper_ns / 1e9 : std::numeric_limits<double>::infinity()},
            expected(books.at(end, site).allocated));
      }
    }
  }
  void take_difference(const SimulatedBooks& books, const TargetProfile& early,
                       const TargetProfile& late, int middle, int end) {
    const DiffResult result = diff(early, late, {GroupBy::kFunction, Measure::kAllocated});
    for (const GroupDiff& group : result.diffs) {
      const int site = site_of(group.base);
      const double before = books.at(middle, site).allocated;
      const double truth = books.at(end, site).allocated - 2 * before;
      of_["difference"].add(truth, group.change, group.change_limits,
                            expected(std::min(before, before + truth)));
    }
  }
  void take_growth(const SimulatedBooks& books, const ProfileSnapshot& snapshot, int middle,
                   int end) {
    const LeakAnswer answer =
        find_leaks(snapshot, {books.time(middle), 0}, filter_, {GroupBy::kFunction, 1000}).value();
    for (const LeakSuspect& leak : answer.suspects) {
      const int site = site_of(leak.group);
      const double growth = books.at(end, site).live - books.at(middle, site).live;
      of_["growth"].add(growth, leak.growth_bytes, leak.growth_limits,
                        expected(books.at(end, site).live));
      if (books.median_age(site) == 0) continue;
      of_["median age"].add(books.median_age(site), leak.median_age_seconds, leak.median_age_limits,
                            expected(books.at(end, site).live));
    }
  }

  std::map<std::string, Calibrated> of_;
  double rate_ = 0;  // at first, of the run
  bool followed_ = true;
  Filter filter_;
};

}  // namespace memprofd
