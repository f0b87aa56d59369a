// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/overhead_budget.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace memprofd {
namespace {

using Change = OverheadBudget::Change;

constexpr double kShare = 0.01;
constexpr double kTrapNs = 1000;

// Work of a simulated program in one second.
struct Load {
  double words = 0;
  double frames = 10;
  double own_cpu = 1;  // seconds
};
using Program = std::function<Load(double second)>;

struct Outcome {
  std::vector<double> rates;  // in force, by second
  std::vector<double> spent;  // overhead, by second
  int changes = 0;
  double own = 0, cost = 0;

  double overhead_between(std::size_t from, std::size_t to) const {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += spent[i];
    return sum / static_cast<double>(to - from);
  }
};

// Runtime capture: random samples, and costs as in the model.
class Simulation {
 public:
  explicit Simulation(double ceiling, double share = kShare)
      : budget(share, ceiling, MEMPROF_CAPTURE_BY_RUNTIME, kTrapNs) {}

  Outcome run(const Program& program, int seconds) {
    Outcome run;
    for (int second = 0; second < seconds; ++second) {
      const Load load = program(second);
      OverheadWindow window{.seconds = 1};
      std::poisson_distribution<std::uint64_t> samples(load.words * budget.rate());
      window.counts.samples = load.words > 0 ? samples(dice_) : 0;
      window.counts.frames =
          static_cast<std::uint64_t>(load.frames * static_cast<double>(window.counts.samples));
      window.counts.probe_hits = window.counts.samples / 1000 + 1;
      const double cost = cost_seconds(window.counts, kTrapNs);
      window.memprofd_seconds = static_cast<double>(window.counts.samples) * memprofd_ns * 1e-9;
      window.cpu_seconds = load.own_cpu + cost;
      run.rates.push_back(budget.rate());
      run.spent.push_back(load.own_cpu > 0 ? cost / load.own_cpu : 0);
      run.own += load.own_cpu;
      run.cost += cost;
      if (budget.judge(window) != Change::kNone) ++run.changes;
    }
    return run;
  }

  OverheadBudget budget;
  double memprofd_ns = 0;  // that each sample takes it

 private:
  std::mt19937_64 dice_{7};
};

Program steady(double words, double frames = 10) {
  return [=](double) { return Load{words, frames}; };
}

Program phases(double period, const Load& first, const Load& second) {
  return [=](double now) { return std::fmod(now, 2 * period) < period ? first : second; };
}

TEST(OverheadBudget, KeepsTheRateAskedForWhereItCostsLittle) {
  Simulation simulation(1e-5);
  const Outcome run = simulation.run(steady(1e6), 600);
  EXPECT_EQ(run.changes, 0);
  EXPECT_EQ(simulation.budget.rate(), 1e-5);
}

// The usual rate under the usual budget, where the kernel captures and a trap is slow.
TEST(OverheadBudget, BeginsWithTheRateAskedForWhereTheWorstProgramTakesALittleMore) {
  EXPECT_EQ(OverheadBudget(kShare, 1e-5, MEMPROF_CAPTURE_BY_KERNEL, 2000).rate(), 1e-5);
  EXPECT_LT(OverheadBudget(kShare, 2e-5, MEMPROF_CAPTURE_BY_KERNEL, 2000).rate(), 1e-5);
}

TEST(OverheadBudget, WithoutABudgetMeasuresOnly) {
  Simulation simulation(1e-2, 0);
  const Outcome run = simulation.run(steady(1.6e8), 600);
  EXPECT_EQ(run.changes, 0);
  EXPECT_EQ(simulation.budget.rate(), 1e-2);
  EXPECT_NEAR(simulation.budget.overhead(), run.cost / run.own, 0.01 * run.cost / run.own);
  simulation.budget.set_ceiling(1e-1);
  EXPECT_EQ(simulation.budget.rate(), 1e-1);
}

TEST(OverheadBudget, ABudgetThatComesLaterIsKeptAndOneThatGoesIsForgotten) {
  Simulation simulation(1e-2, 0);
  simulation.run(steady(1.6e8), 10);
  simulation.budget.set_share(kShare);
  EXPECT_EQ(simulation.budget.rate(), 1e-2) << "what it costs is to be seen";
  const Outcome run = simulation.run(steady(1.6e8), 100);
  EXPECT_LT(run.overhead_between(5, 100), kShare);
  EXPECT_LT(simulation.budget.rate(), 1e-4);
  simulation.budget.set_share(kShare / 10);
  const Outcome less = simulation.run(steady(1.6e8), 100);
  EXPECT_LT(less.overhead_between(5, 100), kShare / 10);
  simulation.budget.set_share(0);
  EXPECT_EQ(simulation.budget.rate(), 1e-2);
}

TEST(OverheadBudget, BeginsWithinTheBudgetWhateverTheProgramDoes) {
  for (const double share : {0.001, 0.01, 0.05}) {
    Simulation simulation(1e-2, share);
    const Outcome run = simulation.run(steady(2e8), 1);
    EXPECT_LT(run.spent[0], share);
  }
}

TEST(OverheadBudget, SettlesNearTheBudgetOfASteadyProgram) {
  for (const double words : {1e6, 1e7, 1.6e8}) {
    Simulation simulation(1e-2);
    const Outcome run = simulation.run(steady(words), 3600);
    EXPECT_LE(run.changes, 4) << words;
    EXPECT_LT(run.cost / run.own, kShare) << words;
    EXPECT_GT(run.overhead_between(60, 3600), 0.4 * kShare) << words;
    EXPECT_LT(simulation.budget.overhead(), kShare) << words;
  }
}

TEST(OverheadBudget, RatesHaveTwoDigits) {
  for (double words = 1e6; words < 1e9; words *= 1.3) {
    Simulation simulation(1e-2);
    for (const double rate : simulation.run(steady(words), 60).rates) {
      EXPECT_EQ(rate, std::strtod(absl::StrFormat("%.1e", rate).c_str(), nullptr)) << words;
    }
  }
}

TEST(OverheadBudget, ReachesTheCeilingOfAProgramThatAllocatesLittle) {
  Simulation simulation(1e-3);
  const Outcome run = simulation.run(steady(1e5), 60);
  EXPECT_EQ(simulation.budget.rate(), 1e-3);
  EXPECT_LE(run.changes, 3);
}

// The outcome of the first raise must not matter.
TEST(OverheadBudget, ReachesACeilingThatIsNotFarAboveTheRate) {
  for (double words = 1e4; words < 1e6; words *= 1.2) {
    Simulation simulation(1e-2);
    simulation.run(steady(words), 120);
    EXPECT_EQ(simulation.budget.rate(), 1e-2) << words;
  }
}

TEST(OverheadBudget, CountsDeepCallstacks) {
  Simulation flat(1e-2), deep(1e-2);
  flat.run(steady(1e8, 10), 600);
  const Outcome run = deep.run(steady(1e8, 200), 600);
  EXPECT_LT(run.overhead_between(5, 600), kShare);
  EXPECT_LT(deep.budget.rate(), flat.budget.rate() / 4);
}

TEST(OverheadBudget, LowersPromptlyWhenTheLoadComes) {
  Simulation simulation(1e-2);
  const Outcome run = simulation.run([](double now) { return Load{now < 100 ? 1e5 : 1.6e8}; }, 200);
  EXPECT_EQ(run.rates[99], 1e-2);
  EXPECT_LT(run.rates[102], 1e-4);
  EXPECT_LT(run.overhead_between(103, 200), kShare);
}

TEST(OverheadBudget, RaisesWhenTheLoadHasGone) {
  Simulation simulation(1e-2);
  const Outcome run = simulation.run([](double now) { return Load{now < 100 ? 1.6e8 : 1e5}; }, 200);
  EXPECT_LT(run.rates[99], 1e-4);
  EXPECT_EQ(simulation.budget.rate(), 1e-2);
  EXPECT_GE(simulation.budget.raised(), 1);
}

TEST(OverheadBudget, ChangesRarelyHoweverTheLoadChanges) {
  for (const double period : {1, 3, 10, 40, 300}) {
    Simulation simulation(1e-2);
    const Program program = phases(period, {1.6e8}, {1e5});
    const int first_hour = simulation.run(program, 3600).changes;
    const Outcome later = simulation.run(program, 3600);
    EXPECT_LE(first_hour, 40) << period;
    EXPECT_LE(later.changes, 24) << period;
    EXPECT_LT(later.cost / later.own, 1.2 * kShare) << period;
  }
}

TEST(OverheadBudget, ShortBurstsThatTheBudgetAllowsChangeNothing) {
  Simulation simulation(1e-4);
  simulation.run(steady(1e6), 100);
  ASSERT_EQ(simulation.budget.rate(), 1e-4);
  const Outcome run =
      simulation.run([](double now) { return Load{std::fmod(now, 60) < 1 ? 2.5e8 : 1e6}; }, 600);
  EXPECT_EQ(run.changes, 0);
}

TEST(OverheadBudget, LeavesAnIdleProgramAlone) {
  Simulation simulation(1e-2);
  const double begun_with = simulation.budget.rate();
  const Outcome run = simulation.run([](double) { return Load{.own_cpu = 1e-4}; }, 3600);
  EXPECT_EQ(run.changes, 0);
  EXPECT_EQ(simulation.budget.rate(), begun_with);
}

// Its small batches would cost 3 % of its CPU, but only 0.003 % of a processor.
TEST(OverheadBudget, AnIdleProgramIsNeverOverBudgetByFixedCosts) {
  OverheadBudget budget(kShare, 1e-4, MEMPROF_CAPTURE_BY_RUNTIME, kTrapNs);
  for (int window = 0; window < 100; ++window) {
    budget.judge({.seconds = 1, .cpu_seconds = 0.02, .counts = {.samples = 2, .probe_hits = 600}});
  }
  EXPECT_EQ(budget.lowered(), 0);
  EXPECT_FALSE(budget.exhausted());
  EXPECT_LT(budget.overhead(), kShare);
}

TEST(OverheadBudget, KnowsWhatASampleCosts) {
  OverheadBudget budget(kShare, 1e-6, MEMPROF_CAPTURE_BY_KERNEL, kTrapNs);
  budget.judge({.seconds = 1, .cpu_seconds = 1, .counts = {.samples = 100}});
  EXPECT_FALSE(budget.sample_seconds()) << "the first window is not judged";
  budget.judge({.seconds = 1,
                .cpu_seconds = 1,
                .counts = {.samples = 100, .probe_hits = 100, .program_ns = 850'000}});
  EXPECT_NEAR(*budget.sample_seconds(), 450e-9 + 1000e-9 + 8500e-9, 1e-9);
}

TEST(OverheadBudget, SmallDeviationsChangeNothing) {
  Simulation simulation(1e-2);
  simulation.run(steady(1e8), 1000);
  const Outcome run =
      simulation.run([](double now) { return Load{1e8 * (1 + 0.15 * std::sin(now / 7))}; }, 3600);
  EXPECT_EQ(run.changes, 0);
}

TEST(OverheadBudget, SaysWhenTheLowestRateIsTooMuch) {
  Simulation simulation(1e-2, 1e-5);
  const Outcome run = simulation.run(steady(1.6e8, 200), 600);
  EXPECT_EQ(simulation.budget.rate(), OverheadBudget::kFloorRate);
  EXPECT_TRUE(simulation.budget.exhausted());
  EXPECT_LE(run.changes, 2);
  simulation.run(steady(1e4), 1000);
  EXPECT_FALSE(simulation.budget.exhausted());
}

TEST(OverheadBudget, MemprofdKeepsToItsShareWithoutABudgetToo) {
  for (const double share : {0.0, kShare}) {
    Simulation simulation(1e-2, share);
    simulation.memprofd_ns = 500;
    simulation.run(steady(2e6), 60);
    EXPECT_GT(simulation.budget.rate(), 2e-3);
    simulation.budget.allow_memprofd(1e-4);
    simulation.run(steady(2e6), 60);
    EXPECT_LT(2e6 * simulation.budget.rate() * 500e-9, 1e-4);
    EXPECT_TRUE(simulation.budget.held());
    simulation.budget.allow_memprofd(0);
    simulation.run(steady(2e6), 60);
    EXPECT_FALSE(simulation.budget.held());
    EXPECT_GT(simulation.budget.rate(), 2e-3);
  }
}

TEST(OverheadBudget, WhatTheLowestRateTookTooMuchIsNotOwed) {
  Simulation simulation(1e-2, 0);
  simulation.memprofd_ns = 500;
  simulation.budget.allow_memprofd(1e-3);
  simulation.run(steady(1e10), 600);
  EXPECT_EQ(simulation.budget.rate(), OverheadBudget::kFloorRate);
  simulation.run(steady(1e6), 60);
  EXPECT_GT(simulation.budget.rate(), 10 * OverheadBudget::kFloorRate);
}

TEST(OverheadBudget, KnowsWhichLimitLowersTheRate) {
  Simulation simulation(1e-2);
  simulation.memprofd_ns = 500;
  simulation.budget.allow_memprofd(0.5);
  simulation.run(steady(1e6), 200);
  for (int second = 0; second < 60; ++second) {
    simulation.run(steady(1.6e8), 1);
    EXPECT_FALSE(simulation.budget.held()) << second;
  }
  EXPECT_LT(simulation.budget.rate(), 1e-3);
  EXPECT_FALSE(simulation.budget.held()) << "its budget does";
}

TEST(OverheadBudget, ACeilingBelowTheFloorIsKept) {
  Simulation simulation(1e-8, 1e-6);
  simulation.run(steady(1e9, 200), 600);
  EXPECT_EQ(simulation.budget.rate(), 1e-8);
}

TEST(OverheadBudget, ANewCeilingHoldsAtOnceAndIsReachedWhenItCanBe) {
  Simulation simulation(1e-3);
  simulation.run(steady(1e5), 60);
  simulation.budget.set_ceiling(1e-4);
  EXPECT_EQ(simulation.budget.rate(), 1e-4);
  simulation.budget.set_ceiling(1e-2);
  EXPECT_EQ(simulation.budget.rate(), 1e-4);
  simulation.run(steady(1e5), 60);
  EXPECT_EQ(simulation.budget.rate(), 1e-2);
}

// Few samples show their cost only roughly; a second without any must not allow a large raise.
TEST(OverheadBudget, NoSamplesDoNotProveThatAnyRateIsCheap) {
  OverheadBudget budget(1e-4, 1, MEMPROF_CAPTURE_BY_KERNEL, kTrapNs);
  for (int second = 0; second < 10; ++second) {
    budget.judge({.seconds = 1, .cpu_seconds = 0.03});
  }
  EXPECT_LT(budget.rate(), 1e-5);
}

TEST(ProfilingCost, AddsUpItsParts) {
  const double cost =
      cost_seconds({.samples = 1000, .frames = 50'000, .probe_hits = 10, .program_ns = 5000}, 1200);
  EXPECT_DOUBLE_EQ(cost, (1000 * kSampleNs + 50'000 * kFrameNs + 10 * 1200 + 5000) * 1e-9);
  EXPECT_DOUBLE_EQ(cost_seconds({.walked = 7000}, 1200), 7000 * kWalkedFrameNs * 1e-9);
}

TEST(ProfilingCost, TheRuntimeCapturesForLessAndTheAgentForLessThanThat) {
  EXPECT_LT(usual_sample_seconds(MEMPROF_CAPTURE_BY_AGENT, kTrapNs),
            usual_sample_seconds(MEMPROF_CAPTURE_BY_RUNTIME, kTrapNs));
  EXPECT_LT(usual_sample_seconds(MEMPROF_CAPTURE_BY_RUNTIME, kTrapNs),
            usual_sample_seconds(MEMPROF_CAPTURE_BY_KERNEL, kTrapNs));
}

}  // namespace
}  // namespace memprofd
