// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/user_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/util/asker.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

class UserPlacesTest : public ::testing::Test {
 protected:
  // How many he gets until one is refused.
  std::size_t take_all(UserPlaces& places, const std::string& user) {
    for (std::size_t n = 0;; ++n) {
      auto place = places.take(user);
      if (!place.ok()) return n;
      taken_.push_back(*std::move(place));
    }
  }

  std::vector<UserPlaces::Place> taken_;
};

TEST_F(UserPlacesTest, EachLeavesSomeToWhoComesNextAndAllLeaveSomeToRoot) {
  UserPlaces places(32, "streams are open");
  EXPECT_EQ(take_all(places, "user 1"), 21u);
  EXPECT_EQ(take_all(places, "user 2"), 5u);
  EXPECT_EQ(take_all(places, "user 3"), 1u);
  EXPECT_EQ(take_all(places, "user 4"), 1u);
  EXPECT_EQ(take_all(places, "user 5"), 0u);
  EXPECT_EQ(take_all(places, ""), 4u) << "root";
  EXPECT_EQ(places.taken(), 32u);
  taken_.clear();
  EXPECT_EQ(places.taken(), 0u);
  EXPECT_EQ(take_all(places, ""), 32u);
}

TEST_F(UserPlacesTest, OfFewOneIsLeftToTheOthersAndOneToRoot) {
  UserPlaces places(4, "looks");
  EXPECT_EQ(take_all(places, "user 1"), 2u);
  EXPECT_EQ(take_all(places, "user 2"), 1u);
  EXPECT_EQ(take_all(places, ""), 1u);
}

TEST_F(UserPlacesTest, AUserMayHaveLessThanHisShare) {
  UserPlaces places(512, "connections", 64);
  EXPECT_EQ(take_all(places, "user 1"), 64u);
  EXPECT_EQ(take_all(places, ""), 448u);
}

TEST_F(UserPlacesTest, SaysWhoseTheyAre) {
  UserPlaces places(4, "looks are under way");
  EXPECT_EQ(take_all(places, "user 1"), 2u);
  EXPECT_EQ(places.take("user 1").status(),
            absl::ResourceExhaustedError("2 looks are under way, 2 of them of user 1, and that is "
                                         "the limit for one user: ask again later"));
  EXPECT_EQ(take_all(places, ""), 2u);
  EXPECT_EQ(places.take("").status(),
            absl::ResourceExhaustedError(
                "4 looks are under way, and that is the limit: ask again later"));
}

TEST_F(UserPlacesTest, APlaceMayOutliveThePlaces) {
  std::optional<UserPlaces> places(std::in_place, 4, "looks");
  taken_.push_back(*places->take("user 1"));
  places.reset();
  taken_.clear();
}

TEST(Asker, IsOfOneThreadForSomeTime) {
  EXPECT_EQ("", Asker::current());
  {
    const Asker user("user 1");
    EXPECT_EQ("user 1", Asker::current());
    {
      const Asker itself("");
      EXPECT_EQ("", Asker::current());
    }
    EXPECT_EQ("user 1", Asker::current());
  }
  EXPECT_EQ("", Asker::current());
}

}  // namespace
}  // namespace memprofd
