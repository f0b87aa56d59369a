// SPDX-License-Identifier: Apache-2.0
// Chooses the sampling rate of a target whose profiling may use a certain share of its CPU. Has no
// side effects: windows of measurements in, rates out.
//
// On OCaml 4 each change forgets the followed blocks, so changes are few:
//
//   lowered  if the target was charged more than a credit allows. The budget fills the credit and
//            the cost empties it: far above the budget within a second or two, slightly above it
//            within half a minute. A burst within the credit changes nothing.
//   raised   if for some time every window would have allowed half as much again, or the requested
//            rate. That time doubles whenever the rate had to be lowered.
//
// In between there is room: a rate is chosen for kAim of the budget. The first rate is one at which
// even a program that does nothing but allocate keeps the budget, or nearly.
//
// Without a budget the rate is the requested one, and the cost is only measured.
//
// A nearly idle program counts as using kIdleCores: the cost at any rate would be a large share of
// almost nothing, and no rate could change that.
//
// memprofd's own CPU use for the target may be limited too, as a share of one processor's time; the
// rate respects both limits in the same way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/attach/budget/allowance.h"
#include "daemon/attach/budget/profiling_cost.h"

namespace memprofd {

struct OverheadWindow {
  double seconds = 0;           // wall time
  double cpu_seconds = 0;       // CPU time of the target, including profiling
  double memprofd_seconds = 0;  // memprofd's CPU time for this target
  ProfilingCounts counts;
};

class OverheadBudget {
 public:
  enum class Change { kNone, kLowered, kRaised };

  static constexpr double kFloorRate = 1e-6;       // never lower, unless the ceiling is
  static constexpr double kAim = Allowance::kAim;  // of the budget
  static constexpr double kWorthRaising = 1.5;
  static constexpr double kWorthLowering = 0.8;
  // Sampling begins with the requested rate if that costs the worst program at most this many
  // budgets.
  static constexpr double kBearable = 1.5;
  static constexpr double kFirstWaitSeconds = 2;
  static constexpr double kLongestWaitSeconds = 600;
  // Upper bound of the allocation rate of any known program, per second of CPU time.
  static constexpr double kMaxWordsPerSecond = 3e8;
  // Windows with less CPU time are ignored.
  static constexpr double kMinCpuSeconds = 0.02;
  // Share of a processor that an idle program counts as using: a budget of 1 % is at least 0.1 % of
  // a processor.
  static constexpr double kIdleCores = 0.1;

  // share: of the target's CPU without profiling; 0: no budget. ceiling: the requested rate.
  OverheadBudget(double share, double ceiling, memprof_capture_by capture, double trap_ns);

  // Takes consecutive windows of about a second of a session that runs at rate(). After a change,
  // rate() is the rate to switch to, and the first window of that session is not judged.
  Change judge(const OverheadWindow& window);

  // Call this when another capture mode begins, or is tried: the next window is not judged.
  void settle();

  double share() const { return of_target_.share(); }
  double rate() const { return rate_; }
  double ceiling() const { return ceiling_; }
  // Sets the requested rate. One below rate() applies at once; so does any rate without a budget.
  void set_ceiling(double ceiling);
  // Sets another budget, or none. rate() follows as judge() decides; without a budget at once.
  void set_share(double share);
  // Limits memprofd's own use of a processor for the target; 0: no limit. rate() follows as judge()
  // decides.
  void allow_memprofd(double share);
  // True if the rate is below the requested one because of memprofd's own limit.
  bool held() const { return held_ && rate_ < ceiling_; }

  // Ratio of the cost to the CPU use without it, over the last seconds at one rate.
  double overhead() const { return recent_own_ > 0 ? recent_cost_ / recent_own_ : 0; }
  // Cost of one sample in seconds, over the last seconds at one rate; nullopt: there was no sample,
  // or none was judged since the rate or the capture changed.
  std::optional<double> sample_seconds() const {
    if (recent_samples_ < 1) return std::nullopt;
    return recent_cost_ / recent_samples_;
  }
  // True if the budget keeps the rate below the requested one, and would continue to.
  bool limits_rate() const {
    return of_target_.limited() && rate_ < ceiling_ && !held_ &&
           kWorthRaising * overhead() > kAim * share();
  }
  // True if even the lowest rate costs more than the budget.
  bool exhausted() const { return exhausted_; }
  std::uint64_t lowered() const { return lowered_; }
  std::uint64_t raised() const { return raised_; }

 private:
  struct Spent {
    double own = 0;  // CPU seconds of the target's own, or those of kIdleCores
    double cost = 0;
    double samples = 0;
    // Upper bounds of the costs: with few samples, chance may hide a higher cost.
    double cost_at_most = 0;
    double memprofds_at_most = 0;
  };
  Spent spent(const OverheadWindow& window) const;
  void remember(const Spent& spent, double seconds);
  Change lower(const Spent& spent, const OverheadWindow& window);
  Change raise_if_calm(const Spent& spent, double seconds);
  Change change_to(double rate, Change change);
  double first_rate(double share) const;
  // The rate, limited to floor and ceiling.
  double usable(double rate) const;
  // True if the rate may differ from the requested one.
  bool limited() const { return of_target_.limited() || of_memprofd_.limited(); }
  // Factors by which the rate should change: for the target, and for memprofd.
  struct Factors {
    double target;
    double memprofd;
    double both() const { return std::min(target, memprofd); }
  };
  Factors factors(const Spent& spent, double cost, double memprofds, double seconds) const;

  const double trap_ns_;
  const double sample_seconds_;  // initial cost of one sample, until one was seen
  double ceiling_;
  double rate_;
  Allowance of_target_;       // share of the target's CPU without profiling
  Allowance of_memprofd_{0};  // share of a processor
  bool held_ = false;         // of_memprofd_ limited the rate most recently
  bool settling_ = true;      // the next window is the first of a session
  bool begins_ = false;       // the next window is the first that is judged
  double calm_seconds_ = 0;   // time during which every window allowed a raise
  double calm_rate_ = 0;      // to this one
  double wait_seconds_ = kFirstWaitSeconds;
  double recent_own_ = 0;
  double recent_cost_ = 0;
  double recent_samples_ = 0;
  bool exhausted_ = false;
  std::uint64_t lowered_ = 0;
  std::uint64_t raised_ = 0;
};

}  // namespace memprofd
