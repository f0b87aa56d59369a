// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/version.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(Version, TextHasTheRevisionIfThereIsOne) {
  EXPECT_EQ(version_text({"1.2.3"}), "1.2.3");
  EXPECT_EQ(version_text({"1.2.3", "v1.2.3-4-gabc"}), "1.2.3 (v1.2.3-4-gabc)");
}

}  // namespace
}  // namespace memprofd
