// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/plugin_follower.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace memprofd {
namespace {

// Pending additions count as data of the target.
TEST(PluginFollower, TablesOfPluginsAreChargedToTheirTarget) {
  constexpr std::uint64_t kDescriptors = 1000;
  std::vector<FrameDescriptor> descriptors;
  for (std::uint64_t i = 0; i < kDescriptors; ++i) {
    descriptors.push_back({.return_address = 0x401000 + i, .address = 0x1000, .frame_size = 16});
  }
  Target target;
  target.budget = std::make_shared<ByteBudget>(1u << 20);
  target.plugins.push_back({.frames = FrameTable(std::move(descriptors))});
  {
    const PluginFollower follower(target, nullptr);
    EXPECT_GE(target.budget->used(), kDescriptors * sizeof(std::uint64_t));
    EXPECT_EQ(target.budget->refused(), 0u);
  }
  EXPECT_EQ(target.budget->used(), 0u);
}

TEST(PluginFollower, DescriptorsWithoutRoomAreCounted) {
  std::vector<FrameDescriptor> descriptors;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    descriptors.push_back({.return_address = 0x401000 + i, .address = 0x1000, .frame_size = 16});
  }
  Target target;
  target.budget = std::make_shared<ByteBudget>(4096);
  target.plugins.push_back({.frames = FrameTable(std::move(descriptors))});
  const PluginFollower follower(target, nullptr);
  EXPECT_LE(target.budget->used(), 4096u);
  EXPECT_GT(target.budget->refused(), 700u);
}

}  // namespace
}  // namespace memprofd
