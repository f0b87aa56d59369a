// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_captures.h"

#include <gtest/gtest.h>

#include <vector>

namespace memprofd {
namespace {

constexpr FileId kProgram{1, 2}, kOther{1, 3};

std::vector<KernelCapture> take_all(const FileId& program) {
  std::vector<KernelCapture> taken;
  while (auto capture = KernelCapture::take(program)) taken.push_back(std::move(*capture));
  return taken;
}

TEST(KernelCaptures, AreBoundedForEachProgram) {
  const auto taken = take_all(kProgram);
  EXPECT_EQ(taken.size(), kMaxKernelCaptures);
  EXPECT_EQ(take_all(kOther).size(), kMaxKernelCaptures);
}

// Each container mounts the shared image separately.
TEST(KernelCaptures, AreBoundedForAllMountsOfAFile) {
  const auto taken = take_all(kProgram);
  const FileId elsewhere{kProgram.device + 1, kProgram.inode};
  EXPECT_FALSE(KernelCapture::take(elsewhere));
}

TEST(KernelCaptures, AreReturned) {
  auto taken = take_all(kProgram);
  taken.pop_back();
  EXPECT_EQ(take_all(kProgram).size(), 1u);
  taken[0] = std::move(taken[1]);  // gives one back as well
  taken.erase(taken.begin() + 1);
  EXPECT_EQ(take_all(kProgram).size(), 2u);
  taken.clear();
  EXPECT_EQ(take_all(kProgram).size(), kMaxKernelCaptures);
}

TEST(KernelCaptures, ThatAreInsistedOnCountToo) {
  const auto insisted = KernelCapture::take_over_limit(kProgram);
  EXPECT_EQ(take_all(kProgram).size(), kMaxKernelCaptures - 1);
  const auto taken = take_all(kProgram);
  const auto beyond = KernelCapture::take_over_limit(kProgram);
  EXPECT_TRUE(take_all(kProgram).empty());
}

TEST(KernelCaptures, FilesAreDistinguished) {
  EXPECT_EQ(file_id(0), file_id(0));
  EXPECT_EQ(file_id(-1), std::nullopt);
}

}  // namespace
}  // namespace memprofd
