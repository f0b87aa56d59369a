// SPDX-License-Identifier: Apache-2.0
// Divides --cpu.max among targets: how much of a processor memprofd may use for each. Has no side
// effects: windows of measurements in, shares out.
//
// Targets get the part of the bound that memprofd's other work leaves, and at least half of it.
// While they use less, no target is limited. Otherwise the costliest are limited first, all to the
// same share, so that the sum fits: a target below that share is not limited, and using more never
// increases a share. A target whose rate is lowered by the bound counts as wanting as much as it
// can get.
//
// The sampling rate enforces a limit (OverheadBudget::allow_memprofd). A target that still uses
// more than twice its limit for kPatience (it has the lowest rate or none, or ignores it) is read
// no faster than its limit, as a last resort, until it uses less and everything is read.
#pragma once

#include <span>
#include <vector>

namespace memprofd {

class CpuBound {
 public:
  static constexpr double kRecentSeconds = 5;  // shares are averages over about this time
  static constexpr double kForTargets = 0.5;   // minimum part of the bound
  // Total time; the shorter one applies to a target that has exceeded the limit before.
  static constexpr double kPatienceSeconds = 15, kShortPatienceSeconds = 2;

  // cores: the bound, 1 is one processor; 0: none.
  explicit CpuBound(double cores) : cores_(cores) {}

  // State of one target.
  class Use {
   public:
    double cores() const { return cores_; }
    // True if the target's events must be read no faster than its limit.
    bool slowed() const { return slowed_; }

   private:
    friend class CpuBound;
    double cores_ = 0;  // recent use
    double over_seconds_ = 0;
    bool slowed_ = false;
    bool slowed_before_ = false;
  };

  struct Target {
    Use* use;
    double cpu_seconds;   // memprofd's CPU time for this target in the window
    bool held;            // the bound keeps its rate below the requested one
    bool behind = false;  // some of its events are still unread
  };
  // Takes consecutive windows. Returns the limit of each target in cores; 0: none.
  double judge(double seconds, double cpu_seconds, std::span<const Target> targets);

  double cores() const { return cores_; }
  // Recent CPU use for everything but targets.
  double other_cores() const { return other_cores_; }

 private:
  double limit(std::span<const Target> targets) const;
  static void slow(double seconds, double limit, const Target& target);

  double cores_;
  double other_cores_ = 0;
};

}  // namespace memprofd
