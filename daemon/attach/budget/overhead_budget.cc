// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/overhead_budget.h"

#include <algorithm>
#include <cmath>

namespace memprofd {
namespace {

// overhead() is over about so much time.
constexpr double kRecentSeconds = 5;
// However wrong the cost is estimated: so much of the CPU is the target's own.
constexpr double kLeastOwn = 0.05;

// Down to two digits, for people.
double rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::floor(rate / unit) * unit;
}

}  // namespace

OverheadBudget::OverheadBudget(double share, double ceiling, memprof_capture_by capture,
                               double trap_ns)
    : share_(share),
      trap_ns_(trap_ns),
      sample_seconds_(usual_sample_seconds(capture, trap_ns)),
      ceiling_(ceiling),
      rate_(first_rate()),
      credit_(full_credit()) {}

double OverheadBudget::first_rate() const {
  if (share_ == 0) return ceiling_;
  const double worst = share_ / (kMostWordsPerSecond * sample_seconds_);
  return worst * kBearable >= ceiling_ ? ceiling_ : usable(worst);
}

OverheadBudget::Change OverheadBudget::judge(const OverheadWindow& window) {
  if (window.cpu_seconds < kLeastCpuSeconds) return Change::kNone;
  if (settling_) {
    settling_ = false;
    begins_ = true;
    return Change::kNone;
  }
  const Spent now = spent(window);
  remember(now, window.seconds);
  if (share_ == 0) return Change::kNone;
  credit_ = std::min(full_credit(), credit_ + share_ * now.own - now.cost);
  if (credit_ == full_credit()) exhausted_ = false;
  return credit_ < 0 ? lower(now) : raise_if_calm(now, window.seconds);
}

void OverheadBudget::set_ceiling(double ceiling) {
  ceiling_ = ceiling;
  if (rate_ > ceiling || share_ == 0) change_to(ceiling, Change::kNone);
}

void OverheadBudget::set_share(double share) {
  share_ = share;
  credit_ = full_credit();
  calm_seconds_ = 0;
  exhausted_ = false;
  if (share == 0 && rate_ != ceiling_) change_to(ceiling_, Change::kNone);
}

OverheadBudget::Spent OverheadBudget::spent(const OverheadWindow& window) const {
  const auto samples = static_cast<double>(window.counts.samples);
  Spent spent{.cost = cost_seconds(window.counts, trap_ns_)};
  const double one = samples > 0 ? spent.cost / samples : sample_seconds_;
  spent.cost_at_most = spent.cost + (2 * std::sqrt(samples) + 4) * one;
  spent.own = std::max(window.cpu_seconds - spent.cost, kLeastOwn * window.cpu_seconds);
  return spent;
}

void OverheadBudget::remember(const Spent& spent, double seconds) {
  const double kept = begins_ ? 0 : std::exp(-seconds / kRecentSeconds);
  begins_ = false;
  recent_own_ = kept * recent_own_ + spent.own;
  recent_cost_ = kept * recent_cost_ + spent.cost;
}

OverheadBudget::Change OverheadBudget::lower(const Spent& spent) {
  if (rate_ <= kFloorRate) {
    credit_ = 0;
    exhausted_ = true;
    return Change::kNone;
  }
  const double factor = std::min(kWorthLowering, kAim * share_ * spent.own / spent.cost);
  ++lowered_;
  wait_seconds_ = std::min(2 * wait_seconds_, kLongestWaitSeconds);
  return change_to(rate_ * factor, Change::kLowered);
}

OverheadBudget::Change OverheadBudget::raise_if_calm(const Spent& spent, double seconds) {
  const double allowed = std::min(ceiling_, rate_ * kAim * share_ * spent.own / spent.cost_at_most);
  const bool reaches_ceiling = allowed == ceiling_ && rate_ < ceiling_;
  if (allowed < kWorthRaising * rate_ && !reaches_ceiling) {
    calm_seconds_ = 0;
    return Change::kNone;
  }
  calm_rate_ = calm_seconds_ > 0 ? std::min(calm_rate_, allowed) : allowed;
  calm_seconds_ += seconds;
  if (calm_seconds_ < wait_seconds_) return Change::kNone;
  ++raised_;
  return change_to(calm_rate_, Change::kRaised);
}

double OverheadBudget::usable(double rate) const {
  if (rate >= ceiling_) return ceiling_;
  return std::max(std::min(kFloorRate, ceiling_), rounded(rate));
}

OverheadBudget::Change OverheadBudget::change_to(double rate, Change change) {
  rate_ = usable(rate);
  calm_seconds_ = 0;
  credit_ = full_credit() / 2;
  settling_ = true;
  return change;
}

}  // namespace memprofd
