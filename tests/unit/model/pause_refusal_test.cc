// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/pause_refusal.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(PauseRefusalTest, StaysWithTheErrorWhateverItsCode) {
  const absl::Status refused = with_refusal(absl::OutOfRangeError("too long"),
                                            {.predicted_seconds = 0.08, .allowed_seconds = 0.05});
  const absl::Status told = with_code(refused, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(absl::StatusCode::kFailedPrecondition, told.code());
  EXPECT_EQ("too long", told.message());
  ASSERT_TRUE(pause_refusal_of(told));
  EXPECT_EQ(0.08, pause_refusal_of(told)->predicted_seconds);
  EXPECT_EQ(0.05, pause_refusal_of(told)->allowed_seconds);
}

TEST(PauseRefusalTest, OtherErrorsHaveNone) {
  EXPECT_FALSE(pause_refusal_of(absl::OkStatus()));
  const absl::Status error = with_code(absl::AbortedError("ended"), absl::StatusCode::kNotFound);
  EXPECT_EQ(absl::NotFoundError("ended"), error);
  EXPECT_FALSE(pause_refusal_of(error));
}

TEST(PauseRefusalTest, EnoughIsMoreThanPredictedAndMayBeAsked) {
  EXPECT_EQ(0.16, (PauseRefusal{.predicted_seconds = 0.08}).enough_seconds());
  EXPECT_EQ(1, (PauseRefusal{.allowed_seconds = 0.05}).enough_seconds()) << "domains, in vain";
  EXPECT_EQ(4, (PauseRefusal{.allowed_seconds = 1}).enough_seconds());
  EXPECT_EQ(60, (PauseRefusal{.predicted_seconds = 45}).enough_seconds());
}

}  // namespace
}  // namespace memprofd
