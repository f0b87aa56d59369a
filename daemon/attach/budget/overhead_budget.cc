// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/overhead_budget.h"

#include <algorithm>
#include <cmath>

namespace memprofd {
namespace {

// Time over which overhead() is measured.
constexpr double kRecentSeconds = 5;
// Minimum share of CPU that counts as the target's own, even if the cost is overestimated.
constexpr double kMinOwn = 0.05;

// Rounds down to two digits for readers: 3.8e-05 instead of the 3.7999999999999995e-05 that a
// factor of 1e-06 gives.
double rounded(double rate) {
  const double per_unit = std::pow(10, 1 - std::floor(std::log10(rate)));
  constexpr double kAsGood = 1 + 1e-9;  // keeps rates that already have two digits
  return std::floor(rate * per_unit * kAsGood) / per_unit;
}

}  // namespace

OverheadBudget::OverheadBudget(double share, double ceiling, memprof_capture_by capture,
                               double trap_ns)
    : trap_ns_(trap_ns),
      sample_seconds_(usual_sample_seconds(capture, trap_ns)),
      ceiling_(ceiling),
      rate_(first_rate(share)),
      of_target_(share) {}

double OverheadBudget::first_rate(double share) const {
  if (share == 0) return ceiling_;
  const double worst = share / (kMaxWordsPerSecond * sample_seconds_);
  return worst * kBearable >= ceiling_ ? ceiling_ : usable(worst);
}

OverheadBudget::Change OverheadBudget::judge(const OverheadWindow& window) {
  if (window.cpu_seconds < kMinCpuSeconds) return Change::kNone;
  if (settling_) {
    settling_ = false;
    begins_ = true;
    return Change::kNone;
  }
  const Spent now = spent(window);
  remember(now, window.seconds);
  if (!limited() && rate_ == ceiling_) return Change::kNone;
  const bool over_budget = !of_target_.take(now.own, now.cost);
  const bool over_memprofds = !of_memprofd_.take(window.seconds, window.memprofd_seconds);
  if (of_target_.saved()) exhausted_ = false;
  if (!over_budget && !over_memprofds) return raise_if_calm(now, window.seconds);
  if (rate_ > kFloorRate) return lower(now, window);
  exhausted_ |= over_budget;
  of_target_.clear_debt();
  of_memprofd_.clear_debt();
  return Change::kNone;
}

void OverheadBudget::set_ceiling(double ceiling) {
  ceiling_ = ceiling;
  if (rate_ > ceiling || !limited()) change_to(ceiling, Change::kNone);
}

void OverheadBudget::set_share(double share) {
  of_target_.set_share(share);
  of_target_.refill();
  calm_seconds_ = 0;
  exhausted_ = false;
  if (!limited() && rate_ != ceiling_) change_to(ceiling_, Change::kNone);
}

void OverheadBudget::allow_memprofd(double share) { of_memprofd_.set_share(share); }

OverheadBudget::Spent OverheadBudget::spent(const OverheadWindow& window) const {
  const auto samples = static_cast<double>(window.counts.samples);
  const double chance = 2 * std::sqrt(samples) + 4;
  Spent spent{.cost = cost_seconds(window.counts, trap_ns_), .samples = samples};
  const double one = samples > 0 ? spent.cost / samples : sample_seconds_;
  spent.cost_at_most = spent.cost + chance * one;
  spent.memprofds_at_most = window.memprofd_seconds * (1 + chance / std::max(samples, 1.0));
  spent.own = std::max(
      {window.cpu_seconds - spent.cost, kMinOwn * window.cpu_seconds, kIdleCores * window.seconds});
  return spent;
}

OverheadBudget::Factors OverheadBudget::factors(const Spent& spent, double cost, double memprofds,
                                                double seconds) const {
  return {.target = of_target_.right_factor(spent.own, cost),
          .memprofd = of_memprofd_.right_factor(seconds, memprofds)};
}

void OverheadBudget::remember(const Spent& spent, double seconds) {
  const double kept = begins_ ? 0 : std::exp(-seconds / kRecentSeconds);
  begins_ = false;
  recent_own_ = kept * recent_own_ + spent.own;
  recent_cost_ = kept * recent_cost_ + spent.cost;
  recent_samples_ = kept * recent_samples_ + spent.samples;
}

OverheadBudget::Change OverheadBudget::lower(const Spent& spent, const OverheadWindow& window) {
  const Factors right = factors(spent, spent.cost, window.memprofd_seconds, window.seconds);
  held_ = right.memprofd < right.target;
  ++lowered_;
  wait_seconds_ = std::min(2 * wait_seconds_, kLongestWaitSeconds);
  return change_to(rate_ * std::min(kWorthLowering, right.both()), Change::kLowered);
}

OverheadBudget::Change OverheadBudget::raise_if_calm(const Spent& spent, double seconds) {
  const Factors right = factors(spent, spent.cost_at_most, spent.memprofds_at_most, seconds);
  held_ &= right.memprofd <= right.target;
  const double allowed = std::min(ceiling_, rate_ * right.both());
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
  settle();
  return change;
}

void OverheadBudget::settle() {
  calm_seconds_ = 0;
  recent_samples_ = 0;  // the cost of a sample at this rate is unknown yet
  of_target_.refill(0.5);
  of_memprofd_.refill(0.5);
  settling_ = true;
}

}  // namespace memprofd
