// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/stream_slots.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace memprofd {
namespace {

class StreamSlotsTest : public ::testing::Test {
 protected:
  // Number of streams that the user gets of those requested.
  int take(int n, const std::string& user) {
    int got = 0;
    for (int i = 0; i < n; ++i) {
      contexts_.push_back(std::make_unique<grpc::ServerContext>());
      auto slot = slots_.take(*contexts_.back(), user);
      if (!slot) continue;
      taken_.push_back(*std::move(slot));
      ++got;
    }
    return got;
  }

  const std::shared_ptr<ServerStats> stats_ = std::make_shared<ServerStats>();
  StreamSlots slots_{stats_};
  std::vector<std::unique_ptr<grpc::ServerContext>> contexts_;
  std::vector<StreamSlots::Slot> taken_;
};

TEST_F(StreamSlotsTest, AUserLeavesSomeToTheOthers) {
  EXPECT_EQ(take(40, "user 1000"), StreamSlots::kSlotsOfUser);
  EXPECT_EQ(take(2, "user 1001"), 2);
  EXPECT_EQ(stats_->grpc_streams, StreamSlots::kSlotsOfUser + 2);
  EXPECT_EQ(take(40, ""), StreamSlots::kSlots - StreamSlots::kSlotsOfUser - 2) << "root";
  taken_.clear();
  EXPECT_EQ(stats_->grpc_streams, 0);
  EXPECT_EQ(take(40, ""), StreamSlots::kSlots);
}

}  // namespace
}  // namespace memprofd
