// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_walk.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(KernelWalk, AKernelThatWalksAllowsEveryMode) {
  for (const CaptureMode mode : {CaptureMode::kAuto, CaptureMode::kKernel, CaptureMode::kRuntime})
    EXPECT_EQ(*capture_here(mode, true), mode);
  EXPECT_TRUE(check_kernel_walks("--mode observe", true).ok());
}

TEST(KernelWalk, OtherwiseTheRuntimeCaptures) {
  EXPECT_EQ(*capture_here(CaptureMode::kAuto, false), CaptureMode::kRuntime);
  EXPECT_EQ(*capture_here(CaptureMode::kRuntime, false), CaptureMode::kRuntime);
}

TEST(KernelWalk, AnUnavailableModeIsRefusedWithCauseAndRemedy) {
  constexpr char kRest[] =
      ": this kernel cannot walk callstacks, because it has no BPF loop helper; boot Linux 5.17 or "
      "later";
  const absl::Status capture = capture_here(CaptureMode::kKernel, false).status();
  EXPECT_EQ(capture, absl::UnimplementedError(std::string("--capture kernel") + kRest));
  EXPECT_EQ(check_kernel_walks("--mode observe", false),
            absl::UnimplementedError(std::string("--mode observe") + kRest));
}

}  // namespace
}  // namespace memprofd
