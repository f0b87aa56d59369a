// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/left_alone.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(LeftAlone, TheFirstOfEachReasonIsSaidAndTheOthersAreCounted) {
  LeftAlone children;
  EXPECT_EQ(children.unsaid(), 0u);
  EXPECT_TRUE(children.add(LeftAlone::kTooManyForks));
  EXPECT_EQ(children.unsaid(), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(children.add(LeftAlone::kTooManyForks));
  EXPECT_TRUE(children.add(LeftAlone::kRefused));
  EXPECT_FALSE(children.add(LeftAlone::kRefused));
  EXPECT_EQ(children.unsaid(), 1001u);
}

}  // namespace
}  // namespace memprofd
