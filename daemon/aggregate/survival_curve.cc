// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/survival_curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace memprofd {
namespace {

constexpr double kRounding = 1e-12;  // rounding error of a share

using ByBucket = std::array<BlockWords, LifetimeHistogram::kBuckets>;

BlockWords add(const DeathCounts& counts, ByBucket& to) {
  BlockWords all;
  for (const DeathCounts::Entry& entry : counts.entries()) {
    to[entry.bucket()] += {entry.words, entry.squares};
    all += {entry.words, entry.squares};
  }
  return all;
}

// Words at risk in each bucket (r above), and their squares.
ByBucket at_risk(const ByBucket& died, const ByBucket& last_seen, const LateEntries& late) {
  ByBucket result;
  BlockWords longer;  // blocks that leave in a later bucket
  for (int i = LifetimeHistogram::kBuckets - 1; i >= 0; --i) {
    result[i] = longer;
    result[i] += died[i];
    result[i] += 0.5 * last_seen[i];
    longer += died[i];
    longer += last_seen[i];
  }
  BlockWords later;  // blocks that enter in a later bucket
  auto entry = late.entries().rbegin();
  for (int i = LifetimeHistogram::kBuckets - 1; i >= 0; --i) {
    result[i] += -1.0 * later;
    if (entry == late.entries().rend() || entry->bucket != i) continue;
    result[i] += -1.0 * entry->missed;
    later += entry->entered;
    ++entry;
  }
  return result;
}

// Wilson's limits of a share that was observed among n.
std::pair<double, double> limits_of(double share, double n, double quantile) {
  const double z2 = quantile * quantile / n;
  const double middle = share + z2 / 2;
  const double half = std::sqrt(z2 * (share * (1 - share) + z2 / 4));
  return {(middle - half) / (1 + z2), (middle + half) / (1 + z2)};
}

// Number of blocks of equal weight to which they correspond (Kish's effective size).
double blocks(const BlockWords& of) {
  return of.squares > 0 ? of.words * of.words / of.squares : 0;
}

// The binomial size that gives the error of S, updated from bucket to bucket.
class EffectiveSize {
 public:
  double next(double survival, double log_variance, const BlockWords& at_risk) {
    most_ = std::max(most_, blocks(at_risk));
    if (survival >= 1 - kRounding) {
      size_ = blocks(at_risk);
    } else if (survival > 0 && log_variance > 0) {
      size_ = (1 - survival) / (survival * log_variance);
    }
    size_ = std::min(size_, most_);
    return size_;
  }

 private:
  double size_ = 0;
  double most_ = 0;
};

double variance_of_log(double q, const BlockWords& died, const BlockWords& at_risk) {
  if (q >= 1) return 0;
  const double left = std::max(0.0, at_risk.squares - died.squares);
  const double survivors = at_risk.words * (1 - q);
  return ((1 - q) * (1 - q) * died.squares + q * q * left) / (survivors * survivors);
}

}  // namespace

SurvivalCurve::SurvivalCurve(const Counters& counters, double quantile) {
  ByBucket died, last_seen;
  const BlockWords dead = add(counters.deaths, died);
  const BlockWords forgotten = add(counters.forgotten, last_seen);
  const BlockWords alive = add(counters.ages, last_seen);
  const double all = dead.words + forgotten.words + alive.words;
  if (all <= 0) return;
  alive_ratio_ = alive.words / all;
  const ByBucket risk = at_risk(died, last_seen, counters.late);
  double survival = 1, log_variance = 0;
  EffectiveSize size;
  Share before;
  for (int i = 0; i < kBuckets; ++i) {
    // Rounding limits what is known about blocks that enter and leave in one bucket.
    const BlockWords here{std::max(risk[i].words, died[i].words),
                          std::max(risk[i].squares, died[i].squares)};
    if (died[i].words + last_seen[i].words > 0) {
      watched_ = i + 1;
      open_ = last_seen[i].words > 0;
    }
    if (here.words > kRounding * all) {
      const double q = died[i].words / here.words;
      log_variance += variance_of_log(q, died[i], here);
      survival = q >= 1 - kRounding ? 0 : survival * (1 - q);
      const double n = size.next(survival, log_variance, here);
      const auto [lower, upper] = limits_of(survival, n, quantile);
      before = {survival, std::min(before.lower, lower), std::min(before.upper, upper)};
    }
    steps_[i] = before;
  }
}

SurvivalCurve::Quantile SurvivalCurve::quantile(double q) const {
  Quantile result;
  const double wanted = 1 - std::clamp(q, 0.0, 1.0);
  bool lower_found = false;
  for (int i = 0; i < watched_; ++i) {
    const double before = i == 0 ? 1 : steps_[i - 1].survival;
    const double after = steps_[i].survival;
    if (!lower_found && steps_[i].lower <= wanted) {
      result.lower_ns = LifetimeHistogram::value_at(i, 0);
      lower_found = true;
    }
    if (!result.ns && after < before && after <= wanted + kRounding) {
      result.ns = LifetimeHistogram::value_at(i, (before - wanted) / (before - after));
    }
    if (steps_[i].upper < wanted) {
      if (i + 1 < kBuckets) result.upper_ns = LifetimeHistogram::upper_bound_ns(i);
      break;
    }
  }
  if (!lower_found) result.lower_ns = watched_ns();
  return result;
}

double SurvivalCurve::watched_ns() const {
  if (empty()) return 0;
  return LifetimeHistogram::value_at(watched_ - 1, open_ ? 0 : 1);
}

double median_at_least_ns(const Counters& counters) {
  const SurvivalCurve curve(counters);
  return curve.quantile(0.5).ns.value_or(curve.watched_ns());
}

}  // namespace memprofd
