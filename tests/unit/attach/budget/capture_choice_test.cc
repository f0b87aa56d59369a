// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/capture_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memprofd {
namespace {

constexpr memprof_capture_by kKernel = MEMPROF_CAPTURE_BY_KERNEL,
                             kRuntime = MEMPROF_CAPTURE_BY_RUNTIME;

// A program on a machine with cheap traps: a sample costs the kernel 0.45 + 0.3 us and its walk.
struct Program {
  std::uint64_t frames = 226;    // 6.1 us by the runtime
  std::uint64_t walk_ns = 2000;  // 2.75 us by the kernel
  std::uint64_t samples = 500;   // a second
  bool is_limited = true;
  bool kernel_may = true;

  // Returns the number of windows until a change, up to a limit.
  int run(CaptureChoice& choice, int windows) const {
    for (int n = 1; n <= windows; ++n) {
      const memprof_capture_by by = kernel_may ? choice.wanted() : kRuntime;
      ProfilingCounts counts{.samples = samples};
      if (by == kKernel) {
        counts.probe_hits = samples;
        counts.program_ns = samples * walk_ns;
      } else {
        counts.frames = samples * frames;
      }
      if (choice.judge(1, counts, by, is_limited)) return n;
    }
    return windows;
  }
};

constexpr double kTrapNs = 300;

TEST(CaptureChoice, BeginsWithTheRuntime) { EXPECT_EQ(CaptureChoice(kTrapNs).wanted(), kRuntime); }

TEST(CaptureChoice, TheKernelStaysWhereItIsCheaper) {
  CaptureChoice choice(kTrapNs);
  const Program program;
  program.run(choice, 100);
  ASSERT_EQ(choice.wanted(), kKernel);
  EXPECT_TRUE(choice.trying());
  EXPECT_THAT(choice.why(),
              ::testing::StartsWith("kernel capture, to measure it: a sample costs 6"));
  EXPECT_EQ(program.run(choice, 3600), 3600);
  EXPECT_EQ(choice.wanted(), kKernel);
  EXPECT_FALSE(choice.trying());
}

TEST(CaptureChoice, ItIsTriedForAMomentAndOnce) {
  CaptureChoice choice(kTrapNs);
  const Program program{.walk_ns = 7000};
  EXPECT_LE(program.run(choice, 100), 3);
  ASSERT_EQ(choice.wanted(), kKernel);
  EXPECT_LE(program.run(choice, 100), 3);
  EXPECT_EQ(choice.wanted(), kRuntime);
  EXPECT_EQ(choice.why(),
            "runtime capture: a sample costs 7.8 µs by the kernel, 6.1 µs by the runtime");
  EXPECT_EQ(program.run(choice, 3600), 3600);
  EXPECT_EQ(choice.wanted(), kRuntime);
}

// A little cheaper is not worth a session.
TEST(CaptureChoice, ItHasToBeCheaperByAQuarter) {
  CaptureChoice choice(kTrapNs);
  const Program program{.walk_ns = 4500};
  program.run(choice, 100);
  program.run(choice, 100);
  EXPECT_EQ(choice.wanted(), kRuntime);
}

TEST(CaptureChoice, IsTriedAgainWhenThePriceHasRisen) {
  CaptureChoice choice(kTrapNs);
  Program program{.frames = 100, .walk_ns = 7000};
  program.run(choice, 100);
  program.run(choice, 100);
  ASSERT_EQ(choice.wanted(), kRuntime);
  program.frames = 250;
  program.run(choice, 100);
  EXPECT_EQ(choice.wanted(), kKernel);
}

TEST(CaptureChoice, IsNotTriedWhereAHitAloneIsMoreExpensive) {
  CaptureChoice choice(5000);
  EXPECT_EQ(Program().run(choice, 3600), 3600);
  CaptureChoice flat(kTrapNs);
  EXPECT_EQ(Program{.frames = 10}.run(flat, 3600), 3600);
}

TEST(CaptureChoice, IsNotTriedWhereTheBudgetPaysForTheRate) {
  CaptureChoice choice(kTrapNs);
  EXPECT_EQ(Program{.is_limited = false}.run(choice, 3600), 3600);
}

TEST(CaptureChoice, GoesBackWhenTheKernelsPriceHasRisen) {
  CaptureChoice choice(kTrapNs);
  Program program;
  program.run(choice, 100);
  program.run(choice, 100);
  ASSERT_EQ(choice.wanted(), kKernel);
  program.walk_ns = 8000;
  program.run(choice, 100);
  EXPECT_EQ(choice.wanted(), kRuntime);
}

TEST(CaptureChoice, ATrialWithoutSamplesEnds) {
  CaptureChoice choice(kTrapNs);
  Program program;
  program.run(choice, 100);
  ASSERT_TRUE(choice.trying());
  program.samples = 1;
  EXPECT_LE(program.run(choice, 100), 12);
  EXPECT_EQ(choice.wanted(), kRuntime);
  EXPECT_FALSE(choice.trying());
}

// The program already has the maximum of targets with kernel capture.
TEST(CaptureChoice, AKernelThatDoesNotCaptureIsNotWaitedFor) {
  CaptureChoice choice(kTrapNs);
  const Program program{.kernel_may = false};
  program.run(choice, 100);
  ASSERT_EQ(choice.wanted(), kKernel);
  EXPECT_EQ(program.run(choice, 3600), 3600) << "no session is due: the runtime captures already";
  EXPECT_EQ(choice.wanted(), kRuntime);
  EXPECT_FALSE(choice.trying());
}

}  // namespace
}  // namespace memprofd
