// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/cpu_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace memprofd {
namespace {

// Water-filling: the common level of vessels of these sizes that share this amount; infinite if all
// of them overflow.
double level(double poured, std::vector<double> sizes) {
  std::sort(sizes.begin(), sizes.end());
  auto left = static_cast<double>(sizes.size());
  for (const double size : sizes) {
    if (size > poured / left) return poured / left;
    poured -= size;
    --left;
  }
  return std::numeric_limits<double>::infinity();
}

void remember(double& recent, double now, double seconds) {
  const double kept = std::exp(-seconds / CpuBound::kRecentSeconds);
  recent = kept * recent + (1 - kept) * now;
}

}  // namespace

double CpuBound::judge(double seconds, double cpu_seconds, std::span<const Target> targets) {
  double for_targets = 0;
  for (const Target& target : targets) {
    remember(target.use->cores_, target.cpu_seconds / seconds, seconds);
    for_targets += target.cpu_seconds;
  }
  remember(other_cores_, std::max(0.0, cpu_seconds - for_targets) / seconds, seconds);
  const double limit = cores_ == 0 ? 0 : this->limit(targets);
  for (const Target& target : targets) slow(seconds, limit, target);
  return limit;
}

double CpuBound::limit(std::span<const Target> targets) const {
  std::vector<double> wanted;
  for (const Target& target : targets) {
    const bool more = target.held || target.use->slowed_;
    wanted.push_back(more ? std::numeric_limits<double>::infinity() : target.use->cores_);
  }
  const double limit = level(std::max(cores_ - other_cores_, kForTargets * cores_), wanted);
  return std::isinf(limit) ? 0 : limit;
}

void CpuBound::slow(double seconds, double limit, const Target& target) {
  Use& use = *target.use;
  const double taken = target.cpu_seconds / seconds;
  if (use.slowed_) {
    use.slowed_ = limit != 0 && (target.behind || taken > limit / 2);
    return;
  }
  use.over_seconds_ = limit != 0 && taken > 2 * limit ? use.over_seconds_ + seconds : 0;
  if (use.over_seconds_ < (use.slowed_before_ ? kShortPatienceSeconds : kPatienceSeconds)) return;
  use.slowed_ = use.slowed_before_ = true;
  use.over_seconds_ = 0;
}

}  // namespace memprofd
