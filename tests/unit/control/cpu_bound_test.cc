// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/cpu_bound.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "daemon/attach/budget/overhead_budget.h"

namespace memprofd {
namespace {

constexpr double kTrapNs = 1000;
constexpr int kLong = 60;  // windows

struct Costs {
  explicit Costs(double bound, std::vector<double> of_targets)
      : bound(bound), uses(of_targets.size()), cores(std::move(of_targets)) {}

  // The limit after that many windows of a second.
  double after(int windows, double others = 0) {
    double limit = 0;
    for (int i = 0; i < windows; ++i) {
      std::vector<CpuBound::Target> targets;
      double all = others;
      for (std::size_t target = 0; target < uses.size(); ++target) {
        targets.push_back({&uses[target], cores[target], target < held, behind && target == 0});
        all += cores[target];
      }
      limit = bound.judge(1, all, targets);
    }
    return limit;
  }

  CpuBound bound;
  std::deque<CpuBound::Use> uses;
  std::vector<double> cores;  // that each takes
  std::size_t held = 0;       // the first ones
  bool behind = false;        // the first one
};

TEST(CpuBound, ThereIsNoLimitAsLongAsTheyTakeLess) {
  EXPECT_EQ(Costs(0.5, {0.2, 0.2}).after(kLong), 0);
  EXPECT_EQ(Costs(0, {1, 1}).after(kLong), 0) << "no bound";
  EXPECT_EQ(Costs(0.5, {}).after(kLong, 2), 0) << "no targets";
}

TEST(CpuBound, TheMostExpensiveAreLimitedEquallyAndOthersAreNot) {
  EXPECT_NEAR(Costs(0.3, {0.5, 0.4, 0.01}).after(kLong), (0.3 - 0.01) / 2, 1e-3);
  EXPECT_NEAR(Costs(0.3, {9, 0.1, 0.01}).after(kLong), 0.3 - 0.11, 1e-3);
}

TEST(CpuBound, AShortBurstChangesNothing) {
  Costs costs(0.5, {0.1});
  costs.after(kLong);
  costs.cores = {1};
  EXPECT_EQ(costs.after(1), 0);
}

TEST(CpuBound, OtherWorkLeavesThemLessButAtLeastHalf) {
  EXPECT_NEAR(Costs(0.5, {1, 1}).after(kLong, 0.1), 0.2, 1e-3);
  EXPECT_NEAR(Costs(0.5, {1, 1}).after(kLong, 3), 0.125, 1e-3);
}

TEST(CpuBound, OneThatIsHeldDownWantsMore) {
  Costs costs(0.5, {0.1, 0.1, 0.1});
  costs.held = 1;
  EXPECT_NEAR(costs.after(kLong), 0.3, 1e-3);
  costs.held = 0;
  EXPECT_EQ(costs.after(1), 0);
}

TEST(CpuBound, OneThatDoesNotKeepItsLimitIsSlowedUntilItTakesLess) {
  Costs costs(0.1, {0.5, 0.01});
  costs.after(static_cast<int>(CpuBound::kPatienceSeconds) - 1);
  EXPECT_FALSE(costs.uses[0].slowed());
  const double limit = costs.after(5);
  EXPECT_TRUE(costs.uses[0].slowed());
  EXPECT_FALSE(costs.uses[1].slowed());
  costs.cores[0] = limit;
  costs.after(kLong);
  EXPECT_TRUE(costs.uses[0].slowed()) << "it would take more";
  costs.cores[0] = limit / 10;
  costs.behind = true;
  costs.after(1);
  EXPECT_TRUE(costs.uses[0].slowed()) << "it has told more than is read";
  costs.behind = false;
  costs.after(1);
  EXPECT_FALSE(costs.uses[0].slowed());
  costs.cores[0] = 0.5;
  costs.after(kLong / 10);
  EXPECT_TRUE(costs.uses[0].slowed()) << "sooner than at first";
}

TEST(CpuBound, OneIsSlowedFromTwiceItsLimitOn) {
  Costs costs(0.1, {0.19});
  EXPECT_NEAR(costs.after(kLong), 0.1, 1e-3);
  EXPECT_FALSE(costs.uses[0].slowed());
  costs.cores[0] = 0.22;
  costs.after(kLong);
  EXPECT_TRUE(costs.uses[0].slowed());
}

// Programs sampled at the rates of their budgets. Each sample costs memprofd 0.5 us of CPU.
class Programs {
 public:
  static constexpr double kAsked = 1e-2;

  explicit Programs(double bound, std::vector<double> words_a_second)
      : bound_(bound), words(std::move(words_a_second)), uses_(words.size()) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      budgets.emplace_back(0, kAsked, MEMPROF_CAPTURE_BY_RUNTIME, kTrapNs);
    }
  }

  // Answers with what memprofd took in the last of them.
  double run(int windows) {
    double all = 0;
    for (int i = 0; i < windows; ++i) all = window();
    return all;
  }

 private:
  double window() {
    constexpr double kOthers = 0.01, kSampleSeconds = 0.5e-6;
    double all = kOthers;
    std::vector<CpuBound::Target> targets;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const double samples = words[i] * budgets[i].rate();
      const double taken = samples * kSampleSeconds;
      all += taken;
      targets.push_back({&uses_[i], taken, budgets[i].held()});
      (void)budgets[i].judge({.seconds = 1,
                              .cpu_seconds = 1,
                              .memprofd_seconds = taken,
                              .counts = {.samples = static_cast<std::uint64_t>(samples)}});
    }
    const double limit = bound_.judge(1, all, targets);
    for (OverheadBudget& budget : budgets) budget.allow_memprofd(limit);
    return all;
  }

  CpuBound bound_;

 public:
  std::vector<double> words;
  std::deque<OverheadBudget> budgets;

 private:
  std::deque<CpuBound::Use> uses_;
};

TEST(CpuBound, RatesAreLoweredUntilItIsKeptAndRaisedWhenThereIsRoom) {
  constexpr double kBound = 0.2;
  Programs programs(kBound, {3e8, 2e8, 1e8, 1e6});
  EXPECT_GT(programs.run(1), 2);
  EXPECT_LT(programs.run(kLong), kBound);
  EXPECT_GT(programs.run(1), kBound / 2) << "what there is is used";
  for (int noisy = 0; noisy < 3; ++noisy) {
    EXPECT_TRUE(programs.budgets[noisy].held());
    EXPECT_LT(programs.budgets[noisy].lowered(), 4u);
  }
  EXPECT_EQ(programs.budgets[3].rate(), Programs::kAsked);
  programs.words = {1e6, 1e6, 1e6, 1e6};
  programs.run(5 * kLong);
  for (const OverheadBudget& budget : programs.budgets) {
    EXPECT_EQ(budget.rate(), Programs::kAsked);
    EXPECT_FALSE(budget.held());
  }
}

TEST(CpuBound, ANoisyProgramLeavesTheOthersTheirShare) {
  Programs programs(0.2, {3e8, 3e6, 3e6, 3e6});
  programs.run(kLong);
  EXPECT_TRUE(programs.budgets[0].held());
  for (int quiet = 1; quiet < 4; ++quiet) {
    EXPECT_EQ(programs.budgets[quiet].rate(), Programs::kAsked);
    EXPECT_EQ(programs.budgets[quiet].lowered(), 0u);
  }
}

}  // namespace
}  // namespace memprofd
