// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/skipped_children.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(SkippedChildren, TheFirstOfEachReasonIsSaidAndTheOthersAreCounted) {
  SkippedChildren children;
  EXPECT_EQ(children.not_logged(), 0u);
  EXPECT_TRUE(children.add(SkippedChildren::kTooManyForks));
  EXPECT_EQ(children.not_logged(), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(children.add(SkippedChildren::kTooManyForks));
  EXPECT_TRUE(children.add(SkippedChildren::kRefused));
  EXPECT_FALSE(children.add(SkippedChildren::kRefused));
  EXPECT_EQ(children.not_logged(), 1001u);
}

}  // namespace
}  // namespace memprofd
