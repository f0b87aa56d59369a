// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/rate_limit_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memprofd {
namespace {

constexpr double kTrapNs = 1000;
constexpr memprof_capture_by kKernel = MEMPROF_CAPTURE_BY_KERNEL,
                             kRuntime = MEMPROF_CAPTURE_BY_RUNTIME;

// Windows of a busy program with that many samples, each of which costs 10.8 us.
void judge(OverheadBudget& budget, std::uint64_t samples, int windows = 2) {
  for (int window = 0; window < windows; ++window) {
    budget.judge({.seconds = 1,
                  .cpu_seconds = 1,
                  .memprofd_seconds = 0.02,
                  .counts = {.samples = samples,
                             .probe_hits = samples,
                             .program_ns = samples * (10'800 - 450 - 1000)}});
  }
}

TEST(RateLimitText, IsEmptyAtTheRateAskedFor) {
  const OverheadBudget budget(0.01, 1e-6, kKernel, kTrapNs);
  EXPECT_EQ(rate_limit_text(budget, kKernel, CaptureMode::kAuto, 0), "");
}

TEST(RateLimitText, SaysThatNothingIsKnownYet) {
  const OverheadBudget budget(0.01, 1e-2, kRuntime, kTrapNs);
  EXPECT_EQ(rate_limit_text(budget, kRuntime, CaptureMode::kAuto, 0),
            "at 2.2e-05 until enough samples show what one costs");
}

TEST(RateLimitText, SaysWhatHoldsItAndWhatWouldRaiseIt) {
  OverheadBudget budget(0.01, 4e-5, kKernel, kTrapNs);
  const double rate = budget.rate();
  judge(budget, 700);
  ASSERT_EQ(budget.rate(), rate);
  EXPECT_EQ(rate_limit_text(budget, kKernel, CaptureMode::kKernel, 0),
            "kept at 1.1e-05 by --max-overhead 1% (kernel capture costs 10.8 µs a sample); try "
            "memprofd --capture runtime or --max-overhead 4%");
  EXPECT_EQ(rate_limit_text(budget, kRuntime, CaptureMode::kAuto, 0),
            "kept at 1.1e-05 by --max-overhead 1% (runtime capture costs 10.8 µs a sample); try "
            "--max-overhead 4%");
}

TEST(RateLimitText, ProposesNoUnrealisticBudget) {
  OverheadBudget budget(0.01, 1e-2, kKernel, kTrapNs);
  judge(budget, 700);
  EXPECT_EQ(rate_limit_text(budget, kRuntime, CaptureMode::kAuto, 0),
            "kept at 1.1e-05 by --max-overhead 1% (runtime capture costs 10.8 µs a sample); 0.01 "
            "would take 989 % of its CPU");
  EXPECT_EQ(rate_limit_text(budget, kKernel, CaptureMode::kKernel, 0),
            "kept at 1.1e-05 by --max-overhead 1% (kernel capture costs 10.8 µs a sample); try "
            "memprofd --capture runtime");
}

// Measurements at another rate do not apply to this one.
TEST(RateLimitText, SaysThatNothingIsKnownAfterAChange) {
  OverheadBudget budget(0.01, 1e-2, kKernel, kTrapNs);
  judge(budget, 100'000);
  ASSERT_EQ(budget.lowered(), 1);
  EXPECT_THAT(rate_limit_text(budget, kKernel, CaptureMode::kAuto, 0),
              ::testing::EndsWith(" until enough samples show what one costs"));
}

TEST(RateLimitText, SaysThatTheRateWillRise) {
  OverheadBudget budget(0.01, 1e-2, kKernel, kTrapNs);
  judge(budget, 50);
  EXPECT_EQ(rate_limit_text(budget, kKernel, CaptureMode::kAuto, 0),
            "at 1.1e-05 for now; rises while --max-overhead 1% allows it");
}

TEST(RateLimitText, SaysThatMemprofdMayTakeNoMore) {
  OverheadBudget budget(0, 1e-2, kRuntime, kTrapNs);
  judge(budget, 100);
  budget.allow_memprofd(0.001);
  judge(budget, 100);
  ASSERT_TRUE(budget.held());
  EXPECT_THAT(
      rate_limit_text(budget, kRuntime, CaptureMode::kAuto, 0.02),
      ::testing::EndsWith(" by --cpu.max (memprofd takes 2.0 % of a processor for it); raise "
                          "that, or ask for lower rates"));
}

}  // namespace
}  // namespace memprofd
