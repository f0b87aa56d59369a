// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/budget/trap_cost.h"

#include "gtest/gtest.h"

namespace memprofd {
namespace {

TEST(TrapCost, IsThatOfAProbeOnceAndForAll) {
  const double ns = trap_ns();
  RecordProperty("trap_ns", static_cast<int>(ns));
  EXPECT_GE(ns, 100);
  EXPECT_LE(ns, 20'000);
  EXPECT_EQ(ns, trap_ns());
}

}  // namespace
}  // namespace memprofd
