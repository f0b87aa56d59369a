// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/about_pid.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(AboutPid, IsSaidOnce) {
  EXPECT_EQ("pid 42: gone", about_pid(42, "gone"));
  EXPECT_EQ("pid 42: gone", about_pid(42, "pid 42: gone"));
  EXPECT_EQ("pid 42 is gone", about_pid(42, "pid 42 is gone"));
}

TEST(AboutPid, AnotherPidIsAnother) {
  EXPECT_EQ("pid 42: pid 424 traces it", about_pid(42, "pid 424 traces it"));
  EXPECT_EQ("pid 42: traced by pid 42", about_pid(42, "traced by pid 42"));
  EXPECT_EQ("pid 42: pid 42", about_pid(42, "pid 42"));
}

TEST(AboutPid, StatusesKeepTheirCode) {
  const absl::Status status = about_pid(42, absl::UnavailableError("pid 42: gone"));
  EXPECT_EQ(absl::UnavailableError("pid 42: gone"), status);
  EXPECT_TRUE(about_pid(42, absl::OkStatus()).ok());
}

TEST(AboutPid, IsTakenOff) {
  EXPECT_EQ("gone", without_pid(42, "pid 42: gone"));
  EXPECT_EQ("is gone", without_pid(42, "pid 42 is gone"));
  EXPECT_EQ("pid 424 traces it", without_pid(42, "pid 424 traces it"));
}

}  // namespace
}  // namespace memprofd
