// SPDX-License-Identifier: Apache-2.0
// How --cpu.max is shared: what memprofd may take of a processor for each of its targets.
// Computes only: windows of measurements in, shares out.
//
// What is left of the bound after all else that memprofd does is for the targets, half of it
// whatever its clients ask. As long as they take less there is no limit. Then the dearest are
// limited first, to a share that is the same for each of them, so that all together take what there
// is: who takes less than that share is not touched, and nobody's share grows by taking more. A
// target whose rate is held down by it wants as much as it can get.
//
// A limit is kept by the target's sampling rate (OverheadBudget::allow_memprofd). One that has
// taken more than twice its limit for kPatience all the same (it is at the lowest rate, has none,
// or does not follow) is to be read no faster than its limit, the last resort, until it takes less
// and all is read.
#pragma once

#include <span>
#include <vector>

namespace memprofd {

class CpuBound {
 public:
  static constexpr double kRecentSeconds = 5;  // shares are of what was taken over about so much
  static constexpr double kForTargets = 0.5;   // of the bound, at least
  // In all; of one to which it has happened before.
  static constexpr double kPatienceSeconds = 15, kShortPatienceSeconds = 2;

  // cores: the bound, 1 is one processor; 0: none.
  explicit CpuBound(double cores) : cores_(cores) {}

  // What is known of one target.
  class Use {
   public:
    double cores() const { return cores_; }
    // It is to be read no faster than its limit.
    bool slowed() const { return slowed_; }

   private:
    friend class CpuBound;
    double cores_ = 0;  // recently
    double over_seconds_ = 0;
    bool slowed_ = false;
    bool slowed_before_ = false;
  };

  struct Target {
    Use* use;
    double cpu_seconds;   // of memprofd's, for this target, in the window
    bool held;            // its rate is held down
    bool behind = false;  // not all that it has told is read
  };
  // To be called with windows that follow each other. Answers with the limit of each target, in
  // cores; 0: none.
  double judge(double seconds, double cpu_seconds, std::span<const Target> targets);

  double cores() const { return cores_; }
  // Taken recently by all that is not for targets.
  double other_cores() const { return other_cores_; }

 private:
  double limit(std::span<const Target> targets) const;
  static void slow(double seconds, double limit, const Target& target);

  double cores_;
  double other_cores_ = 0;
};

}  // namespace memprofd
