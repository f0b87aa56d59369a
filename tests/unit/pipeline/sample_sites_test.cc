// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/sample_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memprofd {
namespace {

using testing::Eq;
using testing::Optional;

TEST(MajorTimes, WorkedExampleOfTheHeader) {
  MajorTimes majors;
  majors.note(10, 3);
  majors.note(11, 3);
  majors.note(12, 7);
  EXPECT_THAT(majors.last_with_at_most(2), Eq(std::nullopt));
  EXPECT_THAT(majors.last_with_at_most(3), Optional(11u));
  EXPECT_THAT(majors.last_with_at_most(6), Optional(11u));
  EXPECT_THAT(majors.last_with_at_most(7), Optional(12u));
}

TEST(MajorTimes, KnowsTheLatestAlone) {
  MajorTimes majors;
  for (std::uint64_t count = 0; count < 2 * MajorTimes::kMax; ++count) majors.note(count, count);
  EXPECT_THAT(majors.last_with_at_most(MajorTimes::kMax - 1), Eq(std::nullopt));
  EXPECT_THAT(majors.last_with_at_most(MajorTimes::kMax), Optional(MajorTimes::kMax));
}

}  // namespace
}  // namespace memprofd
