// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leak_evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace memprofd {
namespace {

constexpr std::size_t kFewestBlocks = 3;
// Buffers, tables and dynamic arrays grow by a factor of 1.5 or 2; sizes are known within 3 %.
constexpr double kMinFactor = 1.4;
// The death of the previous block may not have been detected yet, and small blocks may be live too.
constexpr double kMaxLive = 1.75;  // in units of the last block

}  // namespace

void LiveTrend::born(double samples, double bytes_each) {
  now_bytes_ += samples * bytes_each;
  window_born_ += samples * bytes_each;
  born_bytes2_ += samples * bytes_each * bytes_each;
  step_.turned_bytes2 += samples * bytes_each * bytes_each;
}

void LiveTrend::gone(double samples, double bytes_each) {
  now_bytes_ -= samples * bytes_each;
  step_.turned_bytes2 += samples * bytes_each * bytes_each;
}

void LiveTrend::end_window(double seconds) {
  born_ += window_born_;
  born_born_ += window_born_ * window_born_;
  born_seconds_ += window_born_ * seconds;
  seconds_ += seconds;
  seconds_seconds_ += seconds * seconds;
  ++windows_;
  window_born_ = 0;
  step_.seconds += seconds;
}

void LiveTrend::end_step() {
  live_.push_back(now_bytes_);
  step_.span = spans_;
  steps_.push_back(std::exchange(step_, {}));
}

double LiveTrend::steadiness() const {
  if (live_.size() < 2) return 0;
  int grew = 0;
  for (std::size_t i = 1; i < live_.size(); ++i) grew += live_[i] > live_[i - 1] ? 1 : 0;
  return grew / static_cast<double>(live_.size() - 1);
}

// Reduced chi-squared of the steps against constant growth. A step of t seconds grows by d bytes
// with a variance of v = t V / T, where V and T are the turned_bytes2 and seconds of its span:
//
//   (sum of d^2 / v - (sum of d t / v)^2 / (sum of t^2 / v)) / (number of steps - 1)
double LiveTrend::dispersion_of_steps() const {
  std::vector<Step> spans(static_cast<std::size_t>(spans_) + 1);
  for (const Step& step : steps_) {
    spans[step.span].seconds += step.seconds;
    spans[step.span].turned_bytes2 += step.turned_bytes2;
  }
  double n = 0, dd = 0, dt = 0, tt = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& span = spans[steps_[i].span];
    const double t = steps_[i].seconds, d = live_[i + 1] - live_[i];
    if (t <= 0 || span.turned_bytes2 <= 0) continue;
    const double v = span.turned_bytes2 * t / span.seconds;
    ++n;
    dd += d * d / v;
    dt += d * t / v;
    tt += t * t / v;
  }
  return n > 1 ? (dd - dt * dt / tt) / (n - 1) : 0;
}

double LiveTrend::dispersion() const {
  double result = std::max(1.0, dispersion_of_steps());
  if (windows_ > 1 && born_bytes2_ > 0) {
    const auto windows = static_cast<double>(windows_);
    const double rate = born_ / seconds_;
    const double squares = born_born_ - 2 * rate * born_seconds_ + rate * rate * seconds_seconds_;
    result = std::max(result, squares / born_bytes2_ * windows / (windows - 1));
  }
  return result;
}

double LiveTrend::variance_of_ends() const {
  const auto n = static_cast<double>(live_.size());
  if (n < 4) return 0;
  std::vector<double> time{0};
  for (const Step& step : steps_) time.push_back(time.back() + step.seconds);
  double mean_time = 0, mean = 0;
  for (std::size_t i = 0; i < live_.size(); ++i) {
    mean_time += time[i] / n;
    mean += live_[i] / n;
  }
  double tt = 0, tb = 0, bb = 0;
  for (std::size_t i = 0; i < live_.size(); ++i) {
    const double t = time[i] - mean_time, b = live_[i] - mean;
    tt += t * t;
    tb += t * b;
    bb += b * b;
  }
  if (tt <= 0) return 0;
  return 2 * std::max(1, spans_) * std::max(0.0, bb - tb * tb / tt) / (n - 2);
}

double LiveTrend::chance_of_rise() const { return memprofd::chance_of_rise(live_); }

double LiveTrend::live_after(double seconds) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const double length = steps_[i].seconds;
    if (seconds < length) return live_[i] + (live_[i + 1] - live_[i]) * seconds / length;
    seconds -= length;
  }
  return live_.back();
}

bool LiveTrend::has_slowed_down(double stderr_bytes) const {
  const double middle = live_after(seconds_ / 2);
  const double first = middle - live_.front(), second = live_.back() - middle;
  return second + stderr_bytes / 2 < first / 2;
}

// Mann-Kendall test. Pairs of equal values do not count and reduce the variance.
//
//   values 3 1 4 6: of 6 pairs 5 rise and 1 falls: 4 +- sqrt(4 * 3 * 13 / 18) = 2.9; less 1 as a
//   continuity correction, because such sums differ by two: chance 0.15
double chance_of_rise(const std::vector<double>& values) {
  double rises = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (values[i] != values[j]) rises += values[i] > values[j] ? 1 : -1;
    }
  }
  const auto all = [](double n) { return n * (n - 1) * (2 * n + 5) / 18; };
  double variance = all(static_cast<double>(values.size()));
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  for (auto at = sorted.begin(); at != sorted.end();) {
    const auto next = std::upper_bound(at, sorted.end(), *at);
    variance -= all(static_cast<double>(next - at));
    at = next;
  }
  return variance > 0 ? chance_beyond((rises - 1) / std::sqrt(variance)) : 1;
}

std::vector<bool> discoveries(const std::vector<double>& chances, double false_discoveries) {
  std::vector<double> ascending = chances;
  std::sort(ascending.begin(), ascending.end());
  double highest = -1;
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const double allowed =
        false_discoveries * static_cast<double>(i + 1) / static_cast<double>(ascending.size());
    if (ascending[i] <= allowed) highest = ascending[i];
  }
  std::vector<bool> low;
  low.reserve(chances.size());
  for (const double chance : chances) low.push_back(chance <= highest);
  return low;
}

double samples_to_be_named(std::size_t sites, double false_discoveries) {
  const double allowed = false_discoveries / static_cast<double>(std::max<std::size_t>(sites, 1));
  double n = 2;
  while (chance_beyond((n - 1) / std::sqrt(n)) > allowed) ++n;
  return n;
}

double chance_beyond(double standard_errors) {
  return 0.5 * std::erfc(standard_errors / std::sqrt(2));
}

// ------------------------------------------------------------- growth in steps

std::optional<StepGrowth> growth_in_steps(const std::vector<LargeBlock>& blocks, double live_words,
                                          std::uint64_t begin_ns, std::uint64_t end_ns) {
  if (blocks.size() < kFewestBlocks) return std::nullopt;
  const LargeBlock &first = blocks.front(), &last = blocks.back();
  if (live_words < last.words * 0.9 || live_words > last.words * kMaxLive) return std::nullopt;
  if (last.born_ns < begin_ns + (end_ns - begin_ns) / 2) return std::nullopt;
  double chance = 1;
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].words < kMinFactor * blocks[i - 1].words) return std::nullopt;
    chance /= static_cast<double>(i + 1);
  }
  const auto steps = static_cast<double>(blocks.size() - 1);
  const double seconds = static_cast<double>(last.born_ns - first.born_ns) / 1e9;
  const double begin_words = first.words * first.words / blocks[1].words;
  const double end_words = blocks[blocks.size() - 2].words;
  double contents = begin_words, deviations = 0;
  for (std::size_t i = 1; i < blocks.size() && seconds > 0; ++i) {
    const double since = static_cast<double>(blocks[i].born_ns - blocks[i - 1].born_ns) / 1e9;
    const double even = (end_words - begin_words) * since / seconds;
    deviations += std::pow(blocks[i - 1].words - contents - even, 2);
    contents = blocks[i - 1].words;
  }
  return StepGrowth{.begin_words = begin_words,
                    .end_words = end_words,
                    .words_stderr = std::sqrt(deviations * steps / (steps - 1)),
                    .seconds = seconds,
                    .confidence = 1 - chance};
}

}  // namespace memprofd
