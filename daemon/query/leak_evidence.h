// SPDX-License-Identifier: Apache-2.0
// What the course of a site's live bytes says of a leak. Computes only.
#pragma once

#include <cstddef>
#include <vector>

namespace memprofd {

// What was live at the ends of steps, and what came and went on the way, in bytes. Told window by
// window: the samples of a window, its end, after some windows the end of a step, and after some
// steps the end of a span. Steps may differ in length; samples stand for as much in all steps of a
// span, and may for more or less in another one.
class LiveCourse {
 public:
  explicit LiveCourse(double live_bytes = 0) : live_{live_bytes}, now_bytes_(live_bytes) {}

  // Samples that stand for so many bytes each.
  void born(double samples, double bytes_each);
  void gone(double samples, double bytes_each);
  void end_window(double seconds);
  void end_step();
  void end_span() { ++spans_; }

  // At the begin and the end of each step.
  const std::vector<double>& live_bytes() const { return live_; }
  // Share of the steps in which it grew.
  double steadiness() const;
  // How much more what is live moves than it does when blocks come and go one by one, as a factor
  // of the variance, at least 1. A site that allocates five blocks at a time and lets them go
  // together has five: so much more do births differ between windows, and so much more the steps,
  // each by the error that the samples of its span have.
  double dispersion() const;
  // chance_of_rise() of what is live: Kendall's rank correlation with time. What goes up and down,
  // as a cache does or what waits for a major collection, has no order, however much of it there
  // is.
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

// How likely it is that values in their order rise as they do when the order means nothing.
double chance_of_rise(const std::vector<double>& values);
// The share of discoveries that may be there by chance, where nothing else is asked for.
inline constexpr double kFalseDiscoveries = 0.05;
// Which chances are low for how many there are: of those, that share is low by chance (Benjamini
// and Hochberg).
std::vector<bool> discoveries(const std::vector<double>& chances,
                              double false_discoveries = kFalseDiscoveries);
// The samples that have to be kept, with none let go, to be a discovery among so many sites.
double samples_to_be_named(std::size_t sites, double false_discoveries = kFalseDiscoveries);
// The chance of more than so many standard errors, one-sided.
double chance_beyond(double standard_errors);

}  // namespace memprofd
