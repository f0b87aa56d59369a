// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/stream_places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace memprofd {
namespace {

class StreamPlacesTest : public ::testing::Test {
 protected:
  // How many of so many he gets.
  int take(int n, const std::string& user) {
    int got = 0;
    for (int i = 0; i < n; ++i) {
      contexts_.push_back(std::make_unique<grpc::ServerContext>());
      auto place = places_.take(*contexts_.back(), user);
      if (!place) continue;
      taken_.push_back(*std::move(place));
      ++got;
    }
    return got;
  }

  const std::shared_ptr<ServerStats> stats_ = std::make_shared<ServerStats>();
  StreamPlaces places_{stats_};
  std::vector<std::unique_ptr<grpc::ServerContext>> contexts_;
  std::vector<StreamPlaces::Place> taken_;
};

TEST_F(StreamPlacesTest, AUserLeavesSomeToTheOthers) {
  EXPECT_EQ(take(40, "user 1000"), StreamPlaces::kPlacesOfUser);
  EXPECT_EQ(take(2, "user 1001"), 2);
  EXPECT_EQ(stats_->grpc_streams, StreamPlaces::kPlacesOfUser + 2);
  EXPECT_EQ(take(40, ""), StreamPlaces::kPlaces - StreamPlaces::kPlacesOfUser - 2) << "root";
  taken_.clear();
  EXPECT_EQ(stats_->grpc_streams, 0);
  EXPECT_EQ(take(40, ""), StreamPlaces::kPlaces);
}

}  // namespace
}  // namespace memprofd
