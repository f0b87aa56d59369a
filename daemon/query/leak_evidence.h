// SPDX-License-Identifier: Apache-2.0
// Judges whether the history of a site's live bytes, or its large blocks, are a leak. Has no side
// effects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace memprofd {

// Live bytes at the ends of steps, and the bytes allocated and freed in between. Filled window by
// window: first the samples of a window, then its end; after some windows the end of a step; after
// some steps the end of a span. Steps may differ in length. A sample has the same weight in all
// steps of a span, but may have another in the next span.
class LiveTrend {
 public:
  explicit LiveTrend(double live_bytes = 0) : live_{live_bytes}, now_bytes_(live_bytes) {}

  // Samples that stand for this number of bytes each.
  void born(double samples, double bytes_each);
  void gone(double samples, double bytes_each);
  void end_window(double seconds);
  void end_step();
  void end_span() { ++spans_; }

  // Values at the start and the end of each step.
  const std::vector<double>& live_bytes() const { return live_; }
  // Share of the steps in which live bytes grew.
  double steadiness() const;
  // Factor, at least 1, by which the variance of live bytes exceeds that of blocks that are
  // allocated and freed one by one. A site that allocates five blocks at a time and frees them
  // together has a factor of five: the number of allocations varies more between windows by that
  // factor, and so do the steps, within the error of the samples in their span.
  double dispersion() const;
  // Variance of the growth, in bytes^2, if each value is independent of the previous one: twice
  // that of the values about their line, for each span. Garbage that many collections free between
  // two values is such a case: it varies by all of a collection's garbage, not by single blocks.
  double variance_of_ends() const;
  // chance_of_rise() of live memory: Kendall's rank correlation with time. Memory that goes up and
  // down, such as a cache or floating garbage, has no order, whatever its amount.
  double chance_of_rise() const;
  // True if it grew much more in the first half of the time than later. stderr_bytes: error of the
  // growth.
  bool has_slowed_down(double stderr_bytes) const;

 private:
  struct Step {
    double seconds = 0;
    double turned_bytes2 = 0;  // sum of squares over all samples, allocated and freed
    int span = 0;
  };

  double dispersion_of_steps() const;
  double live_after(double seconds) const;

  std::vector<double> live_;
  std::vector<Step> steps_;  // from each value of live_ to the next
  Step step_;                // the current step
  int spans_ = 0;            // number of spans that have ended
  double now_bytes_;
  // Allocations: of the window; then sums over windows of allocations, of their squares, of their
  // products with the window's length, and of the lengths.
  double window_born_ = 0;
  double born_ = 0, born_born_ = 0, born_seconds_ = 0, seconds_ = 0, seconds_seconds_ = 0;
  double born_bytes2_ = 0;  // sum of squares over all allocated samples
  std::size_t windows_ = 0;
};

// Probability of a rise at least as ordered as this one if the order of values is random.
double chance_of_rise(const std::vector<double>& values);
// Default share of discoveries that may be due to chance.
inline constexpr double kFalseDiscoveries = 0.01;
// Selects the significant probabilities (Benjamini and Hochberg): about this share of them are
// false discoveries.
std::vector<bool> discoveries(const std::vector<double>& chances,
                              double false_discoveries = kFalseDiscoveries);
// Number of samples, none of them freed, that a site needs to be a discovery among this number of
// sites.
double samples_to_be_named(std::size_t sites, double false_discoveries = kFalseDiscoveries);
// One-sided probability of more than this number of standard errors.
double chance_beyond(double standard_errors);

// Leaks of a few large blocks, each of which replaces a smaller one: a Buffer that is never
// cleared, a table or an array that is enlarged again and again.

// A block that is certain, or nearly certain, to be sampled.
struct LargeBlock {
  std::uint64_t born_ns = 0;  // end of the window in which it was allocated
  double words = 0;
};

// Growth of what a site's large blocks contain. A block is replaced when it is full, so at each
// allocation the contents are the previous block: with 1, 2 and 4 MiB they grew from 0.5 to 2 MiB.
struct StepGrowth {
  double begin_words = 0, end_words = 0;  // contents when the first and the last were allocated
  double words_stderr = 0;                // of their difference: how unevenly the steps came
  double seconds = 0;                     // between their allocations
  double confidence = 0;  // probability, 0 to 1, that this order is not due to chance
};

// blocks: all large ones that a site allocated in the range, in the order of allocation.
// live_words: the part of them that is live at the end. Returns nullopt if they are no leak: fewer
// than three blocks, one that is not 1.4 times as large as the previous, one other than the last
// still live, or none allocated in the later half of the range.
std::optional<StepGrowth> growth_in_steps(const std::vector<LargeBlock>& blocks, double live_words,
                                          std::uint64_t begin_ns, std::uint64_t end_ns);

}  // namespace memprofd
