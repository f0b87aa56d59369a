// SPDX-License-Identifier: Apache-2.0
// Judges whether the course of a site's live bytes is a leak. Has no side effects.
#pragma once

#include <cstddef>
#include <vector>

namespace memprofd {

// Live bytes at the ends of steps, and bytes that came and went in between. Filled window by
// window: the samples of a window, its end, after some windows the end of a step, and after some
// steps the end of a span. Steps may differ in length. A sample has the same weight in all steps of
// a span, and may have another in the next span.
class LiveCourse {
 public:
  explicit LiveCourse(double live_bytes = 0) : live_{live_bytes}, now_bytes_(live_bytes) {}

  // Samples that stand for this number of bytes each.
  void born(double samples, double bytes_each);
  void gone(double samples, double bytes_each);
  void end_window(double seconds);
  void end_step();
  void end_span() { ++spans_; }

  // At the begin and the end of each step.
  const std::vector<double>& live_bytes() const { return live_; }
  // Share of the steps in which it grew.
  double steadiness() const;
  // Factor, at least 1, by which the variance of live bytes exceeds that of blocks that come and go
  // one by one. A site that allocates five blocks at a time and releases them together has five:
  // births differ that much more between windows, and so do the steps, each by the error that the
  // samples of its span have.
  double dispersion() const;
  // chance_of_rise() of live memory: Kendall's rank correlation with time. Memory that goes up and
  // down, such as a cache or floating garbage, has no order, however much of it there is.
  double chance_of_rise() const;
  // It has grown much more in the first half of the time than later. stderr_bytes: of the growth.
  bool has_slowed_down(double stderr_bytes) const;

 private:
  struct Step {
    double seconds = 0;
    double turned_bytes2 = 0;  // squares of all samples, born and gone
    int span = 0;
  };

  double dispersion_of_steps() const;
  double live_after(double seconds) const;

  std::vector<double> live_;
  std::vector<Step> steps_;  // from each of live_ to the next
  Step step_;                // that runs
  int spans_ = 0;            // that have ended
  double now_bytes_;
  // Births: of the window, then sums over windows of births, their products with themselves and
  // with the window's length, and of the lengths.
  double window_born_ = 0;
  double born_ = 0, born_born_ = 0, born_seconds_ = 0, seconds_ = 0, seconds_seconds_ = 0;
  double born_bytes2_ = 0;  // squares of all samples born
  std::size_t windows_ = 0;
};

// Probability that values rise at least this much in their order if the order means nothing.
double chance_of_rise(const std::vector<double>& values);
// Default share of discoveries that may be due to chance.
inline constexpr double kFalseDiscoveries = 0.05;
// Selects the probabilities that are low given their number: of those selected, this share is low
// by chance (Benjamini and Hochberg).
std::vector<bool> discoveries(const std::vector<double>& chances,
                              double false_discoveries = kFalseDiscoveries);
// Number of samples that must be kept, with none freed, to be a discovery among this number of
// sites.
double samples_to_be_named(std::size_t sites, double false_discoveries = kFalseDiscoveries);
// Probability of more than this number of standard errors, one-sided.
double chance_beyond(double standard_errors);

}  // namespace memprofd
