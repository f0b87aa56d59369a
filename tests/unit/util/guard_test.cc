// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/guard.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace memprofd {
namespace {

TEST(Guard, AnExceptionIsCountedAndTheRestContinues) {
  const std::uint64_t before = unexpected_errors();
  EXPECT_FALSE(guarded("to test", [] { throw std::bad_alloc(); }));
  EXPECT_FALSE(guarded("to test", [] { throw std::runtime_error("of a library"); }));
  EXPECT_EQ(before + 2, unexpected_errors());
  bool done = false;
  EXPECT_TRUE(guarded("to test", [&] { done = true; }));
  EXPECT_TRUE(done);
  EXPECT_EQ(before + 2, unexpected_errors());
}

}  // namespace
}  // namespace memprofd
